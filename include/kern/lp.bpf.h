/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the TCP-LP family shares on the kernel side: the state of a connection,
 * measuring, reacting to the inference machine's verdicts, small windows, loss
 * and undo, and the family's part of the flow record. The policy's laws are in
 * include/law; which signal drives it is the controller's own story.
 *
 * The including object defines its parameters by LP_PARAMS_DEFINE(). The policy is
 * TCP-LP's. An object with another one defines LP_OWN_POLICY before it includes this,
 * and the lp_policy_ functions after it; one with more parameters defines LP_PARAMS (a
 * table that begins with TCP-LP's) and LP_PARAMS_STRUCT before it.
 */
#ifndef CCBPF_KERN_LP_BPF_H
#define CCBPF_KERN_LP_BPF_H

#include "kern/flow.bpf.h"
#include "kern/gentle.bpf.h"
#include "kern/params.bpf.h"
#include "kern/small.bpf.h"
#include "law/delay.h"
#include "law/flat.h"
#include "law/inference.h"

/* After a restart of the smoothing so many samples make an indication: one late
 * ACK is none, and still a window of five packets shows both within an RTT. A
 * small window sends so little that each sample counts. */
#define LP_SAMPLES 2

/* A connection's state, in icsk_ca_priv. */
struct lp {
	struct delay delay;
	union {
		struct gentle_start gentle; /* until the first reduction */
		struct inference inference; /* after it (avoiding) */
	};
	u32 window; /* packets: the policy's window while small, else 0 */
	u32 loss_cwnd; /* packets: what a loss took and undo may give back */
	u32 rtt_us; /* us: last valid sample */
	u32 queue_us; /* us: last queueing delay */
	u32 published_kius; /* 1024 us: the record was written */
	u8 avoiding : 1; /* slow start is behind us: indications count */
	u8 paced : 1; /* we switched the kernel's pacing on */
	u8 undone : 1; /* the kernel may raise ssthresh over an early cut */
	u8 echoed : 1; /* the last ACK carried ECE */
	u8 answered : 1; /* an echo since the last reaction (tcp_lp_ecn) */
	u8 open : 1; /* init() was there: the kernel asks ssthresh() before,
		      * when it has to send its SYN again */
	u8 resumed : 1; /* an undo has brought back the first slow start */
	u8 signal; /* enum ccbpf_signal */
	union {
		u8 flat; /* samples that stand still, while small */
		u8 row; /* else: a policy's row of its table, a hint */
	};
};

_Static_assert(sizeof(struct lp) <=
		       sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

#ifndef LP_PARAMS
#define LP_PARAMS TCP_LP_PARAMS
#define LP_PARAMS_STRUCT struct tcp_lp_params
#endif

#define LP_PARAMS_DEFINE() \
	LP_PARAMS_STRUCT params SEC(".data.params") = { LP_PARAMS(PARAM_DEFAULT) }

extern LP_PARAMS_STRUCT params;

LP_PARAMS(PARAM_GETTER)

static __always_inline struct lp *lp_of(struct sock *sk)
{
	return ca_of(sk);
}

static __always_inline void lp_delay_params(struct delay_params *p)
{
	p->delta = param_delta();
	p->smoothing = param_smoothing();
	p->memory_s = param_delay_memory();
	p->floor_us = param_threshold_floor();
	p->least = LP_SAMPLES;
}

/* packets: the window the policy reasons about */
static __always_inline u32 lp_window(struct tcp_sock *tp, struct lp *lp)
{
	return lp->window ?: tp->snd_cwnd;
}

/* us between two pairs of a small window. In base RTTs: a gap that the queue of
 * others had made longer would still last when they are gone. */
static __always_inline u32 lp_gap_us(struct tcp_sock *tp, struct lp *lp)
{
	s32 base_us = aged_min(&lp->delay.rtt);

	return small_gap(tp, lp->window, param_small_spread(),
			 base_us == AGED_NO_MIN ? sock_srtt_us(tp) : base_us);
}

static __always_inline void lp_event(struct sock *sk, struct lp *lp, u32 type,
				     u32 a, u32 b)
{
	struct flow_event e = {
		.type = type,
		.rtt_us = lp->rtt_us,
		.delay_us = lp->queue_us,
		.a = a,
		.b = b,
	};

	flow_event(sk, &e);
}

/* --- policy ------------------------------------------------------------ */

/* packets: what @acked ones count for where a window of them earns one more */
static __always_inline u32 lp_policy_credit(struct tcp_sock *tp, struct lp *lp,
					    u32 acked);

/* packets: what a reducing verdict leaves of the policy's @window */
static __always_inline u32 lp_policy_reduced(enum inference_verdict verdict,
					     u32 window);

/* packets: what a loss leaves of the kernel's window, at least 2 */
static __always_inline u32 lp_policy_loss(struct tcp_sock *tp);

/* The policy's own part of the record, beside the family's. */
static __always_inline void lp_policy_fill(struct tcp_sock *tp, struct lp *lp,
					   struct ccbpf_flow *f);

#ifndef LP_OWN_POLICY
static __always_inline u32 lp_policy_credit(struct tcp_sock *tp, struct lp *lp,
					    u32 acked)
{
	return acked;
}

static __always_inline u32 lp_policy_reduced(enum inference_verdict verdict,
					     u32 window)
{
	return inference_reduced(verdict, window);
}

static __always_inline u32 lp_policy_loss(struct tcp_sock *tp)
{
	return sock_reno_ssthresh(tp);
}

static __always_inline void lp_policy_fill(struct tcp_sock *tp, struct lp *lp,
					   struct ccbpf_flow *f)
{
}
#endif

/* --- measure ----------------------------------------------------------- */

static __always_inline void lp_read_ack(struct tcp_sock *tp, u32 acked,
					struct delay_ack *a)
{
	a->now_us = tp->tcp_mstamp;
	a->rtt_us = sock_rtt_us(tp);
	a->tsval = tp->rx_opt.rcv_tsval;
	a->tsecr = tp->rx_opt.rcv_tsecr;
	a->our_tick_ns = sock_stamped(tp) ? compat_our_tick_ns(tp) : 0;
	a->lone = law_forget(acked <= 1 && !tp->packets_out);
	a->half = law_forget(acked <= 1 && tp->packets_out == 1);
}

/* The peer's clock was learned or lost. */
static __noinline int lp_clock_changed(struct sock *sk, u32 was_ns)
{
	struct lp *lp = lp_of(sk);
	u32 tick_ns = lp->delay.tick_ns;
	u32 signal = tick_ns ? CCBPF_SIGNAL_OWD : CCBPF_SIGNAL_RTT;

	lp_event(sk, lp, CCBPF_EVENT_CLOCK, tick_ns, was_ns);
	if (lp->signal == CCBPF_SIGNAL_ECN || lp->signal == signal)
		return 0;
	if (signal == CCBPF_SIGNAL_RTT) {
		flow_count(fallbacks);
		lp_event(sk, lp, CCBPF_EVENT_FALLBACK, lp->signal, signal);
	}
	lp->signal = signal;
	return 0;
}

/* In a small window, once per pair: a delay that stands still is not a queue.
 * Returns the RTT to keep as the last one: while it stands still the first one of
 * them, to which all are compared. */
static __noinline u32 lp_notice_flat(struct sock *sk, u32 rtt_us)
{
	u32 enough = param_rebase_pairs();
	struct lp *lp = lp_of(sk);
	struct delay_params p;
	u32 rise_us;

	lp_delay_params(&p);
	if (lp->queue_us <= delay_threshold(&lp->delay, &p)) {
		lp->flat = 0;
		return rtt_us;
	}
	lp->flat = flat_count(lp->flat, rtt_us, lp->rtt_us, lp->queue_us,
			      delay_queue_max(&lp->delay));
	if (!enough || lp->flat < enough)
		return lp->flat ? lp->rtt_us : rtt_us;
	lp->flat = 0;
	rise_us = delay_rebase(&lp->delay, rtt_us);
	if (rise_us)
		lp_event(sk, lp, CCBPF_EVENT_REBASE, rise_us, rtt_us);
	return rtt_us;
}

/* Take this ACK's delay; true: an early congestion indication (eq. 2). Only in
 * state Open: elsewhere the ACK may carry the TSecr of an older segment. The
 * first packet that was sent after a reaction starts the smoothing anew. */
static __always_inline bool lp_measure(struct sock *sk, struct lp *lp,
				       u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 tick_ns = lp->delay.tick_ns;
	struct delay_params p;
	struct delay_ack a;

	if (law_unlikely(sock_ca_state(sk) != TCP_CA_Open))
		return false;
	lp_delay_params(&p);
	if (law_unlikely(lp->window))
		p.least = 1;
	lp_read_ack(tp, acked, &a);
	if (lp->avoiding && inference_unmute(&lp->inference, tp->snd_una))
		delay_restart(&lp->delay);
	lp->queue_us = delay_sample(&lp->delay, &a, &p);
	if (law_likely(!lp->window))
		lp->rtt_us = a.rtt_us;
	else if (!tp->packets_out)
		lp->rtt_us = lp_notice_flat(sk, a.rtt_us);
	if (law_unlikely(lp->delay.tick_ns != tick_ns))
		lp_clock_changed(sk, tick_ns);
	return lp->avoiding && delay_indicates(&lp->delay, &p);
}

/* --- decide ------------------------------------------------------------ */

static __noinline int lp_inference_ended(struct sock *sk)
{
	struct lp *lp = lp_of(sk);

	lp_event(sk, lp, CCBPF_EVENT_INFERENCE_END,
		 sock_srtt_us(tcp_of(sk)) * param_inference_rtts(), 0);
	return 0;
}

/* figure 3 */
static __always_inline enum inference_verdict
lp_decide(struct sock *sk, struct lp *lp, bool indicated)
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
	if (law_unlikely(inference_expire(&lp->inference, a.now_us)) &&
	    !indicated)
		lp_inference_ended(sk);
	return inference_step(&lp->inference, &a, indicated);
}

/* --- act --------------------------------------------------------------- */

/* From here on indications count. */
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
	if (!was_small)
		lp->flat = 0;
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
	tp->snd_cwnd = window ?: 1;
	tp->snd_cwnd_cnt = 0;
	lp_event(sk, lp, CCBPF_EVENT_SMALL_LEAVE, window, 0);
	return 0;
}

/* Make @window the policy's window; returns what the kernel's window is then. */
static __always_inline u32 lp_set_window(struct sock *sk, struct lp *lp,
					 u32 window)
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
				      enum inference_verdict verdict)
{
	return lp_policy_reduced(verdict, lp_window(tp, lp));
}

/* Count and tell an early indication that was acted upon. */
static __always_inline void lp_tell_indication(struct sock *sk, struct lp *lp,
					       enum inference_verdict verdict)
{
	bool to_one = verdict == INFERENCE_TO_ONE;
	struct ccbpf_flow *f = flow_of(sk);
	struct delay_params p;

	flow_count(indications);
	if (to_one)
		flow_count(cuts_to_one);
	if (f) {
		f->indications++;
		f->cuts_to_one += to_one;
	}
	lp_delay_params(&p);
	lp_event(sk, lp,
		 to_one ? CCBPF_EVENT_CUT_TO_ONE : CCBPF_EVENT_INDICATION,
		 delay_smoothed(&lp->delay), delay_threshold(&lp->delay, &p));
}

/* An early indication's cut, which undo does not give back. */
static __noinline int lp_cut(struct sock *sk, enum inference_verdict verdict)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	sock_cut_cwnd(tp, lp_set_window(sk, lp, lp_reduced(tp, lp, verdict)));
	lp->loss_cwnd = 0;
	lp_tell_indication(sk, lp, verdict);
	return 0;
}

static __noinline int lp_gentle_left(struct sock *sk)
{
	struct lp *lp = lp_of(sk);
	u32 last_us = gentle_base_us(&lp->gentle);

	lp_avoid(lp);
	gentle_left(tcp_of(sk));
	lp_event(sk, lp, CCBPF_EVENT_SLOW_START_END, lp->rtt_us, last_us);
	return 0;
}

/* A pair that found no queue. Its gap was several RTTs long: one packet each.
 * The ACK must say so itself: a packet that was alone is not smoothed. */
static __always_inline void lp_small_grow(struct sock *sk, struct lp *lp)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 limit = param_small_window();
	u32 rtts = small_gap_rtts(lp->window, tp->mss_cache,
				  param_small_spread());
	struct delay_params p;

	lp_delay_params(&p);
	if (lp->signal != CCBPF_SIGNAL_ECN &&
	    lp->queue_us > delay_threshold(&lp->delay, &p))
		return;
	lp->window = law_min(lp->window + rtts, law_max(limit, lp->window));
	if (lp->window >= limit)
		lp_small_leave(sk, lp->window);
}

static __always_inline void lp_grow(struct sock *sk, struct lp *lp, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (!sock_cwnd_limited(tp)) {
		if (gentle_held(tp, &lp->gentle, lp->avoiding, lp->rtt_us,
				acked))
			lp_gentle_left(sk);
		return;
	}
	if (sock_in_slow_start(tp)) {
		acked = gentle_slow_start(sk, lp, lp->rtt_us,
					  param_gentle_start(), lp_gentle_left,
					  acked);
		if (!acked)
			return;
	}
	acked = lp_policy_credit(tp, lp, acked);
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
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
	return lp->window ||
	       aged_min(&lp->delay.rtt) >= (s32)param_pace_rtt();
}

static __always_inline void lp_act(struct sock *sk, struct lp *lp,
				   enum inference_verdict verdict, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (law_unlikely(lp->undone)) { /* see lp_undo() */
		lp->undone = 0;
		sock_cut_cwnd(tp, tp->snd_cwnd);
	}
	if (law_unlikely(verdict == INFERENCE_HALVE ||
			 verdict == INFERENCE_TO_ONE))
		lp_cut(sk, verdict);
	else if (verdict == INFERENCE_GROW && !lp->window)
		lp_grow(sk, lp, acked);
	else if (verdict == INFERENCE_GROW && !tp->packets_out)
		lp_small_grow(sk, lp);
	if (sock_ca_state(sk) != TCP_CA_Open)
		return;
	lp_notice_small(sk, lp);
	if (law_unlikely(lp->window))
		small_keep(tp);
	lp->paced = pace_keep(sk, lp->paced, lp_paces(lp));
}

/* --- publish ------------------------------------------------------------ */

static __always_inline enum ccbpf_phase lp_phase(struct sock *sk, struct lp *lp)
{
	if (sock_ca_state(sk) >= TCP_CA_CWR)
		return CCBPF_PHASE_RECOVERY;
	if (lp->window)
		return CCBPF_PHASE_SMALL;
	if (lp->avoiding && lp->inference.active)
		return CCBPF_PHASE_INFERENCE;
	return flow_phase(tcp_of(sk));
}

static __always_inline void lp_fill_delay(struct lp *lp, struct ccbpf_flow *f)
{
	s32 rtt_min = aged_min(&lp->delay.rtt);
	struct delay_params p;

	lp_delay_params(&p);
	f->delay_source = lp->signal;
	f->rtt_us = lp->rtt_us;
	f->rtt_min_us = rtt_min == AGED_NO_MIN ? 0 : rtt_min;
	f->delay_us = lp->queue_us;
	f->delay_smoothed_us = delay_smoothed(&lp->delay);
	f->delay_threshold_us = delay_threshold(&lp->delay, &p);
	f->delay_max_us = delay_queue_max(&lp->delay);
	f->delay_base_us = lp->delay.tick_ns ? aged_min(&lp->delay.owd) : 0;
}

static __noinline int lp_fill(struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	if (!f)
		return 0;
	flow_fill(tp, f);
	lp_fill_delay(lp, f);
	f->phase = lp_phase(sk, lp);
	f->lp.window = lp_window(tp, lp);
	f->lp.pair_gap_us = lp->window ? lp_gap_us(tp, lp) : 0;
	f->lp.inference_left_us =
		lp->avoiding ?
			inference_left_us(&lp->inference, tp->tcp_mstamp) :
			0;
	f->lp.peer_tick_ns = lp->delay.tick_ns;
	lp_policy_fill(tp, lp, f);
	return 0;
}

static __always_inline void lp_publish(struct sock *sk, struct lp *lp)
{
	if (law_unlikely(flow_due(tcp_of(sk), &lp->published_kius)))
		lp_fill(sk);
}

static __noinline int lp_publish_repair(struct sock *sk, u32 ssthresh)
{
	lp_fill(sk);
	flow_repairs(sk, ssthresh);
	return 0;
}

/* --- loss and undo ----------------------------------------------------- */

static __always_inline void lp_tell_reduction(struct sock *sk, struct lp *lp,
					      bool loss, u32 to)
{
	struct flow_event e = {
		.rtt_us = lp->rtt_us,
		.delay_us = lp->queue_us,
	};

	flow_reduced(sk, &e, loss, to);
}

/* The policy's cut, and mute the next RTT. A small window halves as the window it
 * is. */
static __always_inline u32 lp_loss(struct sock *sk, struct lp *lp, bool loss)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 to = lp_policy_loss(tp);

	if (!lp->open)
		return to;
	lp_tell_reduction(sk, lp, loss, to);
	lp_avoid(lp);
	inference_mute(&lp->inference, tp->snd_nxt);
	lp->loss_cwnd = tp->snd_cwnd;
	if (lp->window)
		lp->window = law_max(lp->window / 2, 1);
	lp_publish_repair(sk, to);
	return to;
}

/* The kernel found a reduction to be needless. What a loss took comes back; an
 * early cut since then (loss_cwnd = 0) stays, and so must ssthresh, which the
 * kernel restores after this call: the next ACK takes it down again. And again where
 * the first slow start comes back a second time: a peer whose echoes say that no loss
 * was one would have it for ever, and a flow that is paced by the RTT that they feign
 * loses too little to be stopped by that. */
static __always_inline u32 lp_undo(struct sock *sk, struct lp *lp)
{
	bool unbounds = sock_undo_unbounds(tcp_of(sk));
	u32 now = tcp_of(sk)->snd_cwnd, cwnd = law_max(now, lp->loss_cwnd);
	struct flow_event e = {
		.rtt_us = lp->rtt_us,
		.delay_us = lp->queue_us,
	};

	lp->undone = !lp->loss_cwnd || (unbounds && lp->resumed);
	lp->resumed |= unbounds;
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
	lp->window = 0;
	lp->flat = 0;
	lp->loss_cwnd = 0;
	lp->rtt_us = 0;
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

	lp_event(sk, lp, CCBPF_EVENT_CLOSED, f ? f->indications : 0,
		 f ? f->losses : 0);
	if (lp->paced)
		pace_off(sk);
	flow_close(sk);
}

/* Nothing was in flight and the first packets leave. */
static __always_inline void lp_transmit_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	if (flow_idle(tp, lp->published_kius))
		delay_restart(&lp->delay);
	if (lp->window)
		small_depart(sk, lp_gap_us(tp, lp));
}

/* --- programs ----------------------------------------------------------- */

/* Those that are alike in the whole family. */
#define LP_PROGRAMS(cc)                                          \
	SEC("struct_ops")                                        \
	__u32 BPF_PROG(cc##_undo_cwnd, struct sock *sk)          \
	{                                                        \
		return lp_undo(sk, lp_of(sk));                   \
	}                                                        \
                                                                 \
	COMPAT_TX_START(cc, lp_transmit_start)                   \
                                                                 \
	SEC("struct_ops")                                        \
	void BPF_PROG(cc##_release, struct sock *sk)             \
	{                                                        \
		lp_close(sk);                                    \
	}

#endif
