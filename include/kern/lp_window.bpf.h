/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The TCP-LP family's window between losses: early cuts, growth, the end of slow start, and
 * windows below small_window, which leave as pairs of packets (law/small_window.h).
 */
#ifndef CCBPF_KERN_LP_WINDOW_BPF_H
#define CCBPF_KERN_LP_WINDOW_BPF_H

#include "kern/lp_policy.bpf.h"

/* Slow start is over: from here on indications count. */
static __always_inline void lp_avoid(struct lp *lp)
{
	if (lp->avoiding)
		return;
	lp->avoiding = 1;
	inference_init(&lp->inference);
}

/* A window below small_window: pairs of packets, one pair per gap. */
static __noinline int lp_small_enter(struct sock *sk, u32 window)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);
	bool was_small = lp->window;

	lp->window = window ?: 1;
	if (!was_small) {
		lp->flat = 0;
		lp->flat_us = 0;
	}
	lp->paced |= pace_on(sk);
	if (!was_small)
		lp_event(sk, lp, CCBPF_EVENT_SMALL_ENTER, lp_gap_us(tp, lp), 0);
	return 0;
}

static __noinline int lp_small_leave(struct sock *sk, u32 window)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	lp->window = 0;
	lp->noise.flat = 0;
	lp->flat_us = 0;
	tp->snd_cwnd = window ?: 1;
	tp->snd_cwnd_cnt = 0;
	lp_event(sk, lp, CCBPF_EVENT_SMALL_LEAVE, window, 0);
	return 0;
}

/* Make @window the policy's window; returns what the kernel's window is then. */
static __always_inline u32 lp_set_window(struct sock *sk, struct lp *lp, u32 window)
{
	if (window < param_small_window()) {
		lp_small_enter(sk, window);
		return SMALL_PAIR;
	}
	lp->window = 0;
	return window ?: 1;
}

/* packets: the policy's window after a reducing verdict */
static __always_inline u32 lp_reduced(struct tcp_sock *tp, struct lp *lp,
				      enum inference_verdict verdict,
				      const struct lp_policy *policy)
{
	return policy->reduced(verdict, lp_window(tp, lp));
}

/* Count and report an early indication that was acted upon. */
static __always_inline void lp_tell_indication(struct sock *sk, struct lp *lp,
					       enum inference_verdict verdict)
{
	bool to_one = verdict == INFERENCE_TO_ONE;
	struct ccbpf_flow *f = flow_of(sk);
	struct delay_params p;

	totals_indication(sk, to_one);
	flow_count(indications);
	if (to_one)
		flow_count(cuts_to_one);
	if (f) {
		f->indications++;
		f->cuts_to_one += to_one;
	}
	lp_delay_params(lp, &p);
	lp_event(sk, lp, to_one ? CCBPF_EVENT_CUT_TO_ONE : CCBPF_EVENT_INDICATION,
		 delay_smoothed(&lp->delay), delay_threshold(&lp->delay, &p));
}

/* An early indication's cut, which undo does not give back. */
static __noinline int lp_cut(struct sock *sk, enum inference_verdict verdict,
			     const struct lp_policy *policy)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	sock_cut_cwnd(tp, lp_set_window(sk, lp, lp_reduced(tp, lp, verdict, policy)));
	lp->lost = 0;
	lp->bare = 0;
	lp_tell_indication(sk, lp, verdict);
	return 0;
}

static __noinline int lp_gentle_left(struct sock *sk)
{
	struct lp *lp = lp_of(sk);
	u32 last_us = gentle_base_us(&lp->gentle);

	lp_avoid(lp);
	gentle_left(tcp_of(sk));
	lp_event(sk, lp, CCBPF_EVENT_SLOW_START_END, sock_rtt_us(tcp_of(sk)), last_us);
	return 0;
}

/* A pair met no queue: the window grows by a packet for each RTT of its gap. This very ACK must
 * show that there is no queue: the delay of a packet that was alone is not smoothed. */
static __always_inline void lp_small_grow(struct sock *sk, struct lp *lp)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 limit = param_small_window();
	u32 rtts = small_gap_rtts(lp->window, tp->mss_cache, param_small_spread());
	struct delay_params p;

	lp_delay_params(lp, &p);
	if (lp->signal != CCBPF_SIGNAL_ECN && lp->queue_us > delay_threshold(&lp->delay, &p))
		return;
	lp->window = law_min(lp->window + rtts, law_max(limit, lp->window));
	if (lp->window >= limit)
		lp_small_leave(sk, lp->window);
}

/* Losses without a queue: a policer, or a buffer that no delay shows. A flow that is paced
 * loses fewer packets there than flows that send bursts, and gets more than its share. So it
 * grows by half a packet per RTT until it sees a queue. Random losses look the same; with
 * 0.1 % of them this costs a fifth of the goodput. */
static __always_inline bool lp_bare(const struct lp *lp)
{
	return lp->bare >= LP_BARE;
}

static __always_inline void lp_grow(struct sock *sk, struct lp *lp, u32 acked,
				    const struct lp_policy *policy)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (!sock_cwnd_limited(tp)) {
		if (gentle_held(tp, &lp->gentle, lp->avoiding, sock_rtt_us(tp), acked))
			lp_gentle_left(sk);
		return;
	}
	if (sock_in_slow_start(tp)) {
		acked = gentle_slow_start(sk, lp, sock_rtt_us(tp), param_gentle_start(),
					  lp_gentle_left, acked);
		if (!acked)
			return;
	}
	acked = policy->credit(tp, lp, acked);
	tcp_cong_avoid_ai(tp, tp->snd_cwnd << lp_bare(lp), acked);
}

/* After a loss the window may have become small without a cut of ours. */
static __always_inline void lp_notice_small(struct sock *sk, struct lp *lp)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (lp->avoiding && !lp->window && !sock_in_slow_start(tp) &&
	    tp->snd_cwnd < param_small_window())
		lp_small_enter(sk, tp->snd_cwnd);
}

/* Small windows are paced, and others where a burst is long. */
static __always_inline bool lp_paces(struct lp *lp)
{
	return lp->window || aged_min(&lp->delay.rtt) >= (s32)param_pace_rtt();
}

#endif
