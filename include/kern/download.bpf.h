/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a host's own downloads (kern/receive.bpf.h) and those of others at a gateway (bpf/gateway.bpf.c)
 * have in common.
 */
#ifndef CCBPF_KERN_DOWNLOAD_BPF_H
#define CCBPF_KERN_DOWNLOAD_BPF_H

#include "kern/flows.bpf.h"
#include "law/rx_window.h"

#define LEAST_BYTES 3000 /* two segments: what brings less is no download */
#define PUBLISH_US 9216 /* as kern/flow.bpf.h: 9 units of 1024 us */
#define GAP_MOST_US 2000000 /* more is a pause of the application, or of the sender */

static __always_inline enum ccbpf_phase phase_of(const struct rx *x)
{
	if (!x->avoiding)
		return CCBPF_PHASE_SLOW_START;
	if (x->hole)
		return CCBPF_PHASE_RECOVERY;
	if (rx_small(x))
		return CCBPF_PHASE_SMALL;
	return x->law.stage == LE_FREE ? CCBPF_PHASE_AVOIDANCE : CCBPF_PHASE_INFERENCE;
}

/* What the law knows, in a record of `flows` for segments of @mss bytes. */
static __always_inline void download_fill(struct ccbpf_flow *f, const struct rx *x, u32 mss)
{
	f->mss = mss;
	f->phase = phase_of(x);
	f->delay_source = rx_blind(x) ? CCBPF_SIGNAL_NONE : CCBPF_SIGNAL_OWD;
	f->cwnd = x->packets;
	f->ssthresh = x->return_to;
	f->rtt_us = f->srtt_us = x->rtt_us;
	f->rtt_min_us = x->rtt_min_us;
	f->delay_us = x->queue_us;
	f->delay_smoothed_us = le_us(x->law.q);
	f->delay_threshold_us = rx_threshold(x);
	f->delay_max_us = le_us(x->law.most);
	f->rate_bps = (u64)x->flight * 8000000 / (x->rtt_us ?: 1);
	f->rx.window_bytes = rx_bytes(x, mss);
	f->rx.flight_bytes = x->flight;
	f->rx.back_bytes = (x->law.back_q8 >> LE_Q8_SHIFT) * mss;
	f->rx.peer_tick_ns = x->clock.tick_ns;
	f->rx.noise_us = noise_us(&x->noise);
	f->rx.packet_us = x->spacing.packet_us;
}

#endif
