/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The TCP-LP family's measurement: the queueing delay of an ACK, the signs of a longer
 * path (law/flat.h), and the queueing delay at a loss.
 */
#ifndef CCBPF_KERN_LP_MEASURE_BPF_H
#define CCBPF_KERN_LP_MEASURE_BPF_H

#include "kern/lp_state.bpf.h"
#include "law/flat.h"

static __always_inline void lp_read_ack(struct sock *sk, struct lp *lp, struct delay_ack *a)
{
	struct tcp_sock *tp = tcp_of(sk);

	a->now_us = tp->tcp_mstamp;
	a->rtt_us = sock_rtt_us(tp);
	a->tsval = tp->rx_opt.rcv_tsval;
	a->stamped = sock_stamped(tp) && tp->rack.rtt_us;
	a->own_us = 0;
	if (law_unlikely(lp->window))
		a->own_us = spacing_own_us(&lp->spacing, delay_base_us(&lp->delay));
}

/* The peer's clock was learned or lost. */
static __noinline int lp_clock_changed(struct sock *sk, u32 was_ns)
{
	struct lp *lp = lp_of(sk);
	u32 tick_ns = lp->delay.tick_ns;
	u32 signal = lp_delay_signal(lp);

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

/* A delay that stayed constant is not a queue but a longer path. */
static __always_inline void lp_rebase(struct sock *sk, struct lp *lp)
{
	u32 rtt_us = sock_rtt_us(tcp_of(sk));
	u32 rise_us = delay_rebase(&lp->delay, rtt_us);

	lp->flat_us = 0;
	if (rise_us)
		lp_event(sk, lp, CCBPF_EVENT_REBASE, rise_us, rtt_us);
}

/* Is the delay constant? In a small window, once per pair. */
static __noinline int lp_notice_flat(struct sock *sk)
{
	u32 rtt_us = sock_rtt_us(tcp_of(sk)), enough = param_rebase_pairs();
	struct lp *lp = lp_of(sk);
	struct delay_params p;
	u32 full_us;

	lp_delay_params(lp, &p);
	if (lp->queue_us <= delay_threshold(&lp->delay, &p)) {
		lp->flat = 0;
		lp->flat_us = 0;
		return 0;
	}
	lp->flat = flat_pairs(lp->flat, rtt_us, lp->flat_us, p.noise_us, lp->spacing.packet_us);
	full_us = delay_known(&lp->delay) ? lp->delay.most_us : 0;
	if (!lp->flat)
		lp->flat_us = rtt_us;
	if (!enough || lp->flat < flat_enough(enough, lp->queue_us, full_us))
		return 0;
	lp->flat = 0;
	lp_rebase(sk, lp);
	return 0;
}

/* In a larger window, once per round. */
static __noinline int lp_round_ended(struct sock *sk)
{
	struct lp *lp = lp_of(sk);
	u32 low_us = NOISE_UNKNOWN;

	silence_turn(&lp->silence);
	if (!lp->window)
		low_us = noise_learn(&lp->noise);
	if (low_us == NOISE_UNKNOWN)
		return 0;
	lp->noise.flat = flat_rounds(lp->noise.flat, low_us, lp->flat_us, noise_us(&lp->noise),
				     lp->spacing.packet_us);
	if (!lp->noise.flat)
		lp->flat_us = low_us;
	if (!param_rebase_pairs() || lp->noise.flat < FLAT_ROUNDS)
		return 0;
	lp->noise.flat = 0;
	lp_rebase(sk, lp);
	return 0;
}

/* Take this ACK's delay; true: an early congestion indication (eq. 2). Only in states
 * Open and Disorder: in other states the newest packet that arrived may be a retransmission.
 * The first packet that was sent after a reaction starts the smoothing anew. */
static __always_inline bool lp_measure(struct sock *sk, struct lp *lp, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 tick_ns = lp->delay.tick_ns;
	u32 since_us, before_us = lp->queue_us;
	struct delay_params p;
	struct delay_ack a;
	bool silent, late;

	if (law_unlikely(sock_ca_state(sk) > TCP_CA_Disorder))
		return false;
	lp_read_ack(sk, lp, &a);
	if (law_unlikely(!a.rtt_us))
		return false;
	lp_delay_params(lp, &p);
	if (law_unlikely(lp->window))
		p.least = 1;
	if (law_unlikely(lp->telling)) {
		lp->telling = 0;
		delay_lost(&lp->delay, lp->queue_us, lp->starting, &p);
	}
	if (lp->avoiding && inference_unmute(&lp->inference, tp->snd_una))
		delay_restart(&lp->delay);
	since_us = spacing_heard(&lp->spacing, tp->tcp_mstamp, law_forget(lp->window ? 0 : acked));
	if (law_unlikely(noise_turn(&lp->noise, tp->snd_una, tp->snd_nxt)))
		lp_round_ended(sk);
	lp->queue_us = delay_measure(&lp->delay, &a, &p);
	silent = silence_was(since_us, lp->spacing.packet_us);
	if (law_unlikely(silent))
		silence_take(&lp->silence, since_us, lp->queue_us, before_us, lp->window);
	late = law_forget(acked <= 1 && silence_delays(since_us, lp->spacing.packet_us));
	if (law_unlikely(late)) /* the queue is at most this delay */
		lp->queue_us = law_min(lp->queue_us, before_us);
	delay_take(&lp->delay, lp->queue_us, silence_stood_us(&lp->silence), late, &p);
	if (law_likely(!lp->window))
		noise_put(&lp->noise, lp->queue_us);
	else if (!tp->packets_out)
		lp_notice_flat(sk);
	if (law_unlikely(lp->delay.tick_ns != tick_ns))
		lp_clock_changed(sk, tick_ns);
	return lp->avoiding && delay_indicates(&lp->delay, &p);
}

/* Remember the queueing delay at a loss. What it says of the buffer is learned when the
 * repair is over: the kernel may still find that nothing was lost. */
static __noinline int lp_note_loss(struct sock *sk)
{
	struct lp *lp = lp_of(sk);
	struct delay_ack a;

	lp_read_ack(sk, lp, &a);
	lp->queue_us = delay_at_loss(&lp->delay, &a, lp->queue_us, silence_stood_us(&lp->silence));
	lp->telling = 1;
	lp->starting = !lp->avoiding;
	return 0;
}

#endif
