/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TCPW-LP's record in `flows`: the state as others see it, written when it is due.
 */
#ifndef CCBPF_KERN_TCPW_RECORD_BPF_H
#define CCBPF_KERN_TCPW_RECORD_BPF_H

#include "kern/tcpw.bpf.h"

static __always_inline enum ccbpf_phase tcpw_phase(struct sock *sk, struct tcpw *t)
{
	if (sock_ca_state(sk) >= TCP_CA_CWR)
		return CCBPF_PHASE_RECOVERY;
	if (t->window)
		return CCBPF_PHASE_SMALL;
	return flow_phase(tcp_of(sk));
}

static __always_inline void tcpw_fill_own(struct tcp_sock *tp, struct tcpw *t, struct ccbpf_flow *f)
{
	struct ccbpf_flow_tcpw *own = &f->tcpw;
	struct backlog *b = &t->backlog;
	struct backlog_params p;
	u32 window = tcpw_window(tp, t);

	tcpw_params(t, &p);
	f->delay_threshold_us = backlog_limit_us(b, window, &p);
	own->ere_bps = (u64)window * tp->mss_cache * 8000000 / law_max(b->rtt_us, 1);
	own->queue_milli = backlog_queue(b, window);
	own->threshold_milli = backlog_threshold(b, &p);
	own->d_min_us = backlog_delay(b, b->least_us);
	own->d_max_us = backlog_delay(b, b->most_us);
	own->d_loss_us = backlog_loss_delay(b, &p);
	own->foreground_permille = b->foreground * 1000u / BACKLOG_ONE;
	own->window = window;
	own->pair_gap_us = t->window ? tcpw_gap_us(tp, t) : 0;
	f->delay_max_us = own->d_max_us;
}

static __noinline int tcpw_fill(struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);
	u32 last_us = sock_rtt_us(tp);

	if (!f)
		return 0;
	flow_fill(tp, f);
	f->phase = tcpw_phase(sk, t);
	f->delay_source = CCBPF_SIGNAL_RTT;
	f->rtt_us = last_us;
	f->rtt_min_us = backlog_base(&t->backlog);
	f->delay_us = backlog_delay(&t->backlog, last_us);
	f->delay_smoothed_us = tcpw_delay_us(t);
	tcpw_fill_own(tp, t, f);
	return 0;
}

static __always_inline void tcpw_publish(struct sock *sk, struct tcpw *t)
{
	if (law_unlikely(flow_due(tcp_of(sk), &t->published_kius)))
		tcpw_fill(sk);
}

#endif
