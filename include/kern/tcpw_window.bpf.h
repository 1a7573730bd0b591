/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TCPW-LP's window between losses: early window reductions (EWR), growth, the end of slow
 * start, and windows below small_window, which leave as pairs of packets
 * (law/small_window.h).
 */
#ifndef CCBPF_KERN_TCPW_WINDOW_BPF_H
#define CCBPF_KERN_TCPW_WINDOW_BPF_H

#include "kern/tcpw.bpf.h"

/* Slow start is over: from here on EWR works, and its first cycle begins. */
static __always_inline void tcpw_avoid(struct tcp_sock *tp, struct tcpw *t)
{
	if (t->avoiding)
		return;
	t->avoiding = 1;
	chance_init(&t->chance, tp->delivered);
	t->backlog.low_us = 0;
	t->backlog.high_us = 0;
}

/* A window below small_window: pairs of packets, one pair per gap. */
static __noinline int tcpw_small_enter(struct sock *sk, u32 window)
{
	struct tcpw *t = tcpw_of(sk);
	bool was_small = t->window;

	t->window = window ?: 1;
	t->paced |= pace_on(sk);
	if (was_small)
		return 0;
	if (tcp_of(sk)->snd_cwnd > SMALL_PAIR) { /* a large window counts rounds, not pairs */
		t->noise.flat = 0;
		t->flat_us = 0;
	}
	tcpw_event(sk, t, CCBPF_EVENT_SMALL_ENTER, tcpw_gap_us(tcp_of(sk), t), 0);
	return 0;
}

static __noinline int tcpw_small_leave(struct sock *sk, u32 window)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);

	t->window = 0;
	tp->snd_cwnd = window ?: 1;
	tp->snd_cwnd_cnt = 0;
	tcpw_event(sk, t, CCBPF_EVENT_SMALL_LEAVE, window, 0);
	return 0;
}

/* Make this the policy's window. */
static __always_inline void tcpw_set_window(struct sock *sk, struct tcpw *t, u64 window_q8)
{
	u32 window = window_q8 >> BACKLOG_Q8_SHIFT;
	u32 part = window_q8 & (BACKLOG_ONE - 1);
	struct tcp_sock *tp = tcp_of(sk);

	if (window < param_small_window()) {
		tcpw_small_enter(sk, window);
		sock_cut_cwnd(tp, SMALL_PAIR);
		return;
	}
	t->window = 0; /* small_window may have been lowered meanwhile */
	sock_cut_cwnd(tp, window);
	tp->snd_cwnd_cnt = (u64)window * part >> BACKLOG_Q8_SHIFT;
}

/* The virtual queue exceeds its threshold: down to what the path carries (4.2). */
static __noinline int tcpw_reduce(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);
	struct ccbpf_flow *f = flow_of(sk);
	struct backlog_params p;
	u32 queue, threshold;

	tcpw_params(t, &p);
	queue = backlog_queue(&t->backlog, tcpw_window(tp, t));
	threshold = backlog_threshold(&t->backlog, &p);
	if (t->avoiding)
		chance_seen(&t->chance,
			    backlog_visible(&t->backlog, t->backlog.rtt_us, tcpw_window(tp, t), &p),
			    spacing_packets(&t->spacing, backlog_queueing(&t->backlog, &p)));
	tcpw_set_window(sk, t, backlog_pipe(&t->backlog, tcpw_window_q8(tp, t), &p));
	backlog_reduced(&t->backlog, tp->snd_nxt, &p);
	t->lost = 0;
	flow_count(indications);
	totals_indication(sk, false);
	if (f)
		f->indications++;
	tcpw_event(sk, t, CCBPF_EVENT_EWR, queue, threshold);
	return 0;
}

static __noinline int tcpw_gentle_left(struct sock *sk)
{
	struct tcpw *t = tcpw_of(sk);
	u32 last_us = gentle_base_us(&t->gentle);

	tcpw_avoid(tcp_of(sk), t);
	gentle_left(tcp_of(sk));
	tcpw_event(sk, t, CCBPF_EVENT_SLOW_START_END, sock_rtt_us(tcp_of(sk)), last_us);
	return 0;
}

/* A pair met no queue: the window grows by a packet for each RTT of its gap. */
static __always_inline void tcpw_small_grow(struct sock *sk, struct tcpw *t)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 limit = law_max(param_small_window(), 1);

	t->window = law_min(
		t->window + small_gap_rtts(t->window, tp->mss_cache, param_small_spread()), limit);
	if (t->window >= limit)
		tcpw_small_leave(sk, t->window);
}

static __always_inline void tcpw_grow(struct sock *sk, struct tcpw *t, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct backlog_params p;
	u32 shift = 0;

	if (!sock_cwnd_limited(tp)) {
		if (gentle_held(tp, &t->gentle, t->avoiding, sock_rtt_us(tp), acked))
			tcpw_gentle_left(sk);
		return;
	}
	if (sock_in_slow_start(tp)) {
		acked = gentle_slow_start(sk, t, sock_rtt_us(tp), param_gentle_start(),
					  tcpw_gentle_left, acked);
		if (!acked)
			return;
	}
	tcpw_params(t, &p);
	if (t->avoiding && (chance_slow(&t->chance) || backlog_queueing(&t->backlog, &p)))
		shift = CHANCE_SLOWLY_SHIFT;
	tcp_cong_avoid_ai(tp, tp->snd_cwnd << shift, acked);
}

/* Small windows are kept once per pair. After a loss the window may have become small
 * without a reduction of ours. */
static __always_inline void tcpw_keep_small(struct sock *sk, struct tcpw *t)
{
	struct tcp_sock *tp = tcp_of(sk);
	bool open = sock_ca_state(sk) == TCP_CA_Open;

	if (open && t->avoiding && !t->window && !sock_in_slow_start(tp) &&
	    law_unlikely(tp->snd_cwnd < param_small_window()))
		tcpw_small_enter(sk, tp->snd_cwnd);
	if (law_unlikely(t->window))
		small_keep(sk);
	if (open)
		t->paced = pace_keep(sk, t->paced,
				     t->window || backlog_base(&t->backlog) >= param_pace_rtt());
}

#endif
