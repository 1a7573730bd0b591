/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the members of the TCP-LP family share on the kernel side. The laws are in
 * include/law; the signal that drives them is in each controller's file. The rooms:
 *
 *	kern/lp_state.bpf.h	a connection's state, parameters, events
 *	kern/lp_measure.bpf.h	the queueing delay of an ACK
 *	kern/lp_policy.bpf.h	how the window grows, and what a reduction takes
 *	kern/lp_window.bpf.h	early cuts, growth, small windows
 *	kern/lp_record.bpf.h	the record in `flows`
 *	here			the verdict and its execution, loss and undo, begin and end
 *
 * The policy is an argument (kern/lp_policy.bpf.h); TCP-LP's is tcp_lp_policy.
 */
#ifndef CCBPF_KERN_LP_BPF_H
#define CCBPF_KERN_LP_BPF_H

#include "kern/lp_measure.bpf.h"
#include "kern/lp_record.bpf.h"
#include "kern/lp_window.bpf.h"

/* --- decide ------------------------------------------------------------ */

static __noinline int lp_inference_ended(struct sock *sk)
{
	struct lp *lp = lp_of(sk);

	lp_event(sk, lp, CCBPF_EVENT_INFERENCE_END,
		 sock_srtt_us(tcp_of(sk)) * param_inference_rtts(), 0);
	return 0;
}

/* figure 3 */
static __always_inline enum inference_verdict lp_decide(struct sock *sk, struct lp *lp,
							bool indicated)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct inference_ack a = {
		.now_us = tp->tcp_mstamp,
		.rtt_us = sock_srtt_us(tp),
		.snd_una = tp->snd_una,
		.snd_nxt = tp->snd_nxt,
		.rtts = param_inference_rtts(),
	};

	if (!lp->avoiding)
		return INFERENCE_GROW;
	if (law_unlikely(inference_expire(&lp->inference, a.now_us)) && !indicated)
		lp_inference_ended(sk);
	return inference_step(&lp->inference, &a, indicated);
}

/* --- act --------------------------------------------------------------- */

static __always_inline void lp_act(struct sock *sk, struct lp *lp, enum inference_verdict verdict,
				   u32 acked, const struct lp_policy *policy)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (law_unlikely(lp->undone)) { /* see lp_undo() */
		lp->undone = 0;
		sock_cut_cwnd(tp, tp->snd_cwnd);
	}
	if (law_unlikely(verdict == INFERENCE_HALVE || verdict == INFERENCE_TO_ONE))
		lp_cut(sk, verdict, policy);
	else if (verdict == INFERENCE_GROW && !lp->window)
		lp_grow(sk, lp, acked, policy);
	else if (verdict == INFERENCE_GROW && !tp->packets_out)
		lp_small_grow(sk, lp);
	if (sock_ca_state(sk) == TCP_CA_Open)
		lp_notice_small(sk, lp);
	if (law_unlikely(lp->window))
		small_keep(sk);
	if (sock_ca_state(sk) == TCP_CA_Open)
		lp->paced = pace_keep(sk, lp->paced, lp_paces(lp));
}

/* --- loss and undo ----------------------------------------------------- */

/* A loss, or a mark that is answered as one, leaves @to packets; mute the next RTT. */
static __always_inline u32 lp_reduce(struct sock *sk, struct lp *lp, bool loss, u32 to,
				     const struct lp_policy *policy)
{
	lp_tell_reduction(sk, lp, loss, to);
	if (loss)
		lp_note_loss(sk);
	lp_avoid(lp);
	inference_mute(&lp->inference, tcp_of(sk)->snd_nxt);
	lp->lost = !lp->window; /* an undo brings no old window back */
	if (loss && lp->bare < LP_BARE_MOST)
		lp->bare++;
	if (lp->window)
		lp->window = law_max(lp->window / 2, 1);
	lp_publish_repair(sk, to, policy);
	return to;
}

/* A mark that leaves a small window, of @to packets (SMALL_MARKED). */
static __always_inline u32 lp_mark_small(struct sock *sk, struct lp *lp, u32 to,
					 const struct lp_policy *policy)
{
	bool was_small = lp->window;

	lp_reduce(sk, lp, false, SMALL_MARKED, policy);
	if (!was_small)
		lp_small_enter(sk, to);
	return SMALL_MARKED;
}

/* The policy's cut. A small window is halved whatever the policy. After a loss it leaves in pairs: the
 * kernel's window has counted packets of the old one (small_keep()). */
static __always_inline u32 lp_loss(struct sock *sk, struct lp *lp, bool loss,
				   const struct lp_policy *policy)
{
	u32 to = policy->loss(tcp_of(sk));

	if (!lp->open)
		return to;
	if (!loss && (lp->window || to < param_small_window()))
		return lp_mark_small(sk, lp, to, policy);
	return lp_reduce(sk, lp, loss, lp->window ? SMALL_PAIR : to, policy);
}

/* The kernel found a reduction to be needless. What a loss took comes back; an
 * early cut since then (lost = 0) stays, and so must ssthresh, which the
 * kernel restores after this call: the next ACK lowers it again. The same where an undo would
 * bring the first slow start back a second time. Otherwise a peer whose echoes deny every loss
 * would keep the flow in slow start for ever: pacing by the RTT that such a peer pretends
 * leaves too few losses to stop it. */
static __always_inline u32 lp_undo(struct sock *sk, struct lp *lp)
{
	bool unbounds = sock_undo_unbounds(tcp_of(sk));
	u32 now = tcp_of(sk)->snd_cwnd;
	u32 cwnd = lp->lost ? law_max(now, tcp_of(sk)->prior_cwnd) : now;
	struct flow_event e = {
		.rtt_us = sock_rtt_us(tcp_of(sk)),
		.delay_us = lp->queue_us,
	};

	lp->undone = !lp->lost || (unbounds && lp->resumed);
	lp->resumed |= unbounds;
	lp->telling = 0;
	if (lp->bare)
		lp->bare--; /* that loss was none */
	if (lp->window && cwnd >= param_small_window())
		lp_small_leave(sk, cwnd);
	flow_undone(sk, &e, cwnd - now);
	return cwnd ?: 1;
}

/* --- begin, idle, end --------------------------------------------------- */

static __always_inline void lp_open(struct sock *sk, const char *name)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	delay_init(&lp->delay);
	gentle_open(tp, &lp->gentle, param_gentle_start());
	noise_init(&lp->noise, tp->snd_nxt);
	spacing_init(&lp->spacing, tp->tcp_mstamp);
	silence_init(&lp->silence);
	lp->window = 0;
	lp->flat = 0;
	lp->flat_us = 0;
	lp->lost = 0;
	lp->telling = 0;
	lp->starting = 0;
	lp->bare = 0;
	lp->marked = 0;
	lp->queue_us = 0;
	lp->published_kius = 0;
	lp->avoiding = 0;
	lp->paced = 0;
	lp->undone = 0;
	lp->resumed = 0;
	lp->echoed = 0;
	lp->answered = 0;
	lp->open = 1;
	lp->signal = CCBPF_SIGNAL_RTT;
	if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		lp_avoid(lp); /* taken over from another controller */
	flow_open(sk, name);
	lp_event(sk, lp, CCBPF_EVENT_OPENED, sock_ecn(tp), sock_timestamps(tp));
}

static __always_inline void lp_close(struct sock *sk)
{
	struct lp *lp = lp_of(sk);
	struct ccbpf_flow *f = flow_of(sk);

	if (!lp->open)
		return; /* before Linux 6.14 also without init(): a listener, a connection that was refused */
	lp->open = 0;
	lp_event(sk, lp, CCBPF_EVENT_CLOSED, f ? f->indications : 0, f ? f->losses : 0);
	if (lp->paced)
		pace_off(sk);
	flow_close(sk);
}

/* Nothing was in flight and the first packets leave. */
static __always_inline void lp_transmit_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	if (flow_idle(tp, lp->published_kius)) {
		delay_restart(&lp->delay);
		if (lp->avoiding)
			inference_idle(&lp->inference,
				       (u32)(tp->tcp_mstamp >> KIUS_SHIFT) - lp->published_kius);
	}
	if (lp->window)
		small_depart(sk, lp_gap_us(tp, lp));
}

/* --- programs ----------------------------------------------------------- */

/* The programs that are the same in the whole family. */
#define LP_PROGRAMS(cc)                                 \
	SEC("struct_ops")                               \
	__u32 BPF_PROG(cc##_undo_cwnd, struct sock *sk) \
	{                                               \
		return lp_undo(sk, lp_of(sk));          \
	}                                               \
                                                        \
	COMPAT_TX_START(cc, lp_transmit_start)          \
                                                        \
	SEC("struct_ops")                               \
	void BPF_PROG(cc##_release, struct sock *sk)    \
	{                                               \
		lp_close(sk);                           \
	}

#endif
