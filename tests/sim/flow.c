// SPDX-License-Identifier: GPL-2.0-only
/* A connection's beginning and end, and what all of its parts need. See flow.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"

#define RING_FIRST 1024
#define MIN_RTT_HALF_NS (150 * NS_PER_S) /* sysctl_tcp_min_rtt_wlen: 300 s */
#define AF_INET 2

static struct net network = { .ns = { .inum = 1 } };

/* --- small things ------------------------------------------------------- */

void flow_refresh_clock(struct flow *f)
{
	f->tp.tcp_clock_cache = engine_now_ns;
	f->tp.tcp_mstamp = engine_now_ns / NS_PER_US;
}

/* The programs see bytes. They are shown at most 2^20 segments of unsent data, and of the receive window. */
void flow_publish_seqs(struct flow *f)
{
	u32 waiting = f->queued == FLOW_UNLIMITED ? 1u << 20 : f->queued - f->nxt;
	u32 window = f->window < 1u << 20 ? f->window : 1u << 20;

	f->tp.snd_una = FLOW_FIRST_SEQ + f->una * f->tp.mss_cache;
	f->tp.snd_nxt = FLOW_FIRST_SEQ + f->nxt * f->tp.mss_cache;
	f->tp.write_seq =
		f->tp.snd_nxt + (waiting < 1u << 20 ? waiting : 1u << 20) * f->tp.mss_cache;
	f->tp.snd_wnd = window * f->tp.mss_cache;
	f->tp.bytes_acked = (u64)f->una * f->tp.mss_cache;
}

/* A window of 0, or one that no controller of ours should ever set, is a defect and ends the run. */
void flow_set_cwnd(struct flow *f, u32 cwnd)
{
	if (!cwnd || cwnd > 1u << 22) {
		fprintf(stderr, "simulator: flow %s (%s): a window of %u packets\n", f->name,
			f->ca->name, cwnd);
		exit(3);
	}
	f->tp.snd_cwnd = cwnd;
}

void flow_ca_event(struct flow *f, enum tcp_ca_event event)
{
	if (f->ca->cwnd_event)
		f->ca->cwnd_event(sock_of(f), event);
}

void flow_set_ca_state(struct flow *f, u8 state)
{
	if (f->ca->set_state)
		f->ca->set_state(sock_of(f), state);
	icsk_of(f)->icsk_ca_state = state;
}

u32 flow_current_ssthresh(struct flow *f)
{
	u32 most = (f->tp.snd_cwnd >> 1) + (f->tp.snd_cwnd >> 2);

	if (in_cwnd_reduction(f))
		return f->tp.snd_ssthresh;
	return f->tp.snd_ssthresh > most ? f->tp.snd_ssthresh : most;
}

u32 flow_min_rtt_us(struct flow *f)
{
	return f->min_rtt_us < f->min_rtt_before_us ? f->min_rtt_us : f->min_rtt_before_us;
}

/* --- begin -------------------------------------------------------------- */

void flow_init(struct flow *f, const struct controller *ca, u64 seed)
{
	struct random random;

	f->ca = ca;
	f->ring_size = RING_FIRST;
	f->ring = calloc(f->ring_size, sizeof(*f->ring));
	if (!f->ring) {
		fprintf(stderr, "simulator: out of memory for flow %s\n", f->name);
		exit(2);
	}
	f->oldest = f->newest = FLOW_UNLIMITED;
	timer_init(&f->xmit, xmit_timer_expired, f);
	timer_init(&f->pace, output_resume, f);
	random_seed(&random, seed, 1000 + f->number);
	f->clock_offset_us = random_bits(&random) >> 32;
	receiver_init(f, random_bits(&random));
}

/* The connection is established: the handshake has measured one round trip. */
static void flow_establish(struct flow *f)
{
	struct sock *sk = sock_of(f);
	struct tcp_sock *tp = &f->tp;
	u32 rtt_us = (u32)(2 * f->delay_ns / NS_PER_US) ?: 1;

	flow_refresh_clock(f);
	sk->__sk_common.skc_family = AF_INET;
	sk->__sk_common.skc_net.net = &network;
	sk->__sk_common.skc_num = (u16)(40001 + f->number);
	sk->sk_max_pacing_rate = PACING_UNLIMITED;
	sk->sk_pacing_rate = PACING_UNLIMITED;
	sk->sk_pacing_status = f->fq ? FLOW_PACED_BY_FQ : 0;
	tp->snd_cwnd = TCP_INIT_CWND;
	tp->snd_cwnd_clamp = ~0u;
	tp->tcp_header_len = 32;
	tp->rx_opt.tstamp_ok = 1;
	tp->rx_opt.rcv_tsval = receiver_stamp(&f->peer); /* of the SYN-ACK */
	f->peer.ts_recent = flow_stamp(f, engine_now_ns); /* of the SYN */
	tp->ecn_flags = f->ecn ? 1 : 0;
	tp->srtt_us = rtt_us << 3;
	f->mdev_us = rtt_us << 1;
	f->rttvar_us = f->mdev_us > TCP_RTO_MIN_US ? f->mdev_us : TCP_RTO_MIN_US;
	f->mdev_max_us = f->rttvar_us;
	f->rto_us = rtt_us + f->rttvar_us;
	f->min_rtt_us = rtt_us;
	f->min_rtt_before_us = ~0u;
	f->min_rtt_turned_ns = engine_now_ns;
	f->reordering = TCP_REORDERING;
	f->rack_steps = 1;
	f->cwnd_stamp_ns = f->last_sent_ns = engine_now_ns;
	if (!tp->snd_ssthresh)
		tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
}

void flow_start(struct flow *f)
{
	flow_establish(f);
	flow_publish_seqs(f);
	f->running = true;
	f->ca->init(sock_of(f));
	output_pacing_rate(f);
	output_push(f);
}

/* The application has written its last byte: what is queued goes out. */
void flow_stop(struct flow *f)
{
	f->queued = f->nxt;
	f->app_segments_per_s = 0;
}

/* setsockopt(TCP_CONGESTION): the window and the state of a repair stay. */
void flow_switch(struct flow *f, const struct controller *ca)
{
	if (f->ca->release)
		f->ca->release(sock_of(f));
	free(f->storage);
	f->storage = NULL;
	f->ca = ca;
	memset(icsk_of(f)->icsk_ca_priv, 0, sizeof(icsk_of(f)->icsk_ca_priv));
	f->ca->init(sock_of(f));
}
