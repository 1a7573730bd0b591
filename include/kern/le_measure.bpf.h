/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * le's measurement: the queueing delay of an ACK, the end of a block and of a round, and a
 * delay that stands still and is a longer path (law/flat.h).
 */
#ifndef CCBPF_KERN_LE_MEASURE_BPF_H
#define CCBPF_KERN_LE_MEASURE_BPF_H

#include "kern/le.bpf.h"
#include "law/flat.h"

static __always_inline void le_read_ack(struct sock *sk, struct le_flow *f, struct delay_ack *a)
{
	struct tcp_sock *tp = tcp_of(sk);

	a->now_us = tp->tcp_mstamp;
	a->rtt_us = sock_rtt_us(tp);
	a->tsval = tp->rx_opt.rcv_tsval;
	a->stamped = sock_stamped(tp) && tp->rack.rtt_us;
	a->own_us = 0;
	if (law_unlikely(le_small(f)))
		a->own_us = spacing_own_us(&f->spacing, delay_base_us(&f->delay));
}

static __always_inline void le_delay_params(struct le_flow *f, struct delay_params *p)
{
	p->delta = 1;
	p->smoothing = 1;
	p->memory_s = param_delay_memory();
	p->floor_us = 0;
	p->least = 1;
	p->noise_us = noise_us(&f->noise);
}

/* A delay that stayed constant is not a queue but a longer path. */
static __noinline int le_rebase(struct sock *sk)
{
	struct le_flow *f = le_of(sk);
	u32 rtt_us = sock_rtt_us(tcp_of(sk));
	u32 rise_us = delay_rebase(&f->delay, rtt_us);

	f->noise.flat = 0;
	f->law.cut_q = 0;
	if (!rise_us)
		return 0;
	le_moved(&f->law);
	le_event(sk, f, CCBPF_EVENT_REBASE, rise_us, rtt_us);
	return 0;
}

/* In SMALL, once for each pair: a delay that stays constant for long enough is no queue. In FREE
 * this is not judged: the window causes a part of the delay there, and changes with a queue above
 * T. */
static __noinline int le_notice_flat(struct sock *sk)
{
	struct le_flow *f = le_of(sk);
	u32 queue_us = le_us(f->law.q), pairs = param_rebase_pairs();
	u32 full_us = f->law.small_buffer ? le_us(f->law.most) : 0;
	u32 enough = le_flat_pairs(pairs, le_gap_us(tcp_of(sk), f));

	f->noise.flat =
		flat_count(f->noise.flat, queue_us, le_us(f->law.cut_q), noise_us(&f->noise));
	if (!f->noise.flat)
		f->law.cut_q = f->law.q;
	if (pairs && f->noise.flat >= flat_enough(enough, queue_us, full_us))
		le_rebase(sk);
	return 0;
}

/* us: what the round trip says of the queue. Only the peer's clock can tell in which direction it
 * is. */
static __always_inline u32 le_rtt_queue_us(struct tcp_sock *tp, const struct le_path *p)
{
	u32 rtt_us = law_min(sock_rtt_us(tp), sock_srtt_us(tp));

	return rtt_us - law_min(rtt_us, p->base_us);
}

/* A round has ended. */
static __noinline int le_round_ended(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	struct le_path p;

	le_path(f, &p);
	le_round(&f->law, le_window_q8(tp, f), sock_cwnd_limited(tp), &p);
	le_distrust(&f->law, le_rtt_queue_us(tp, &p), &p);
	silence_turn(&f->silence);
	if (!le_small(f))
		falls_learn(&f->noise);
	return 0;
}

/* The peer's clock was learned or lost. */
static __noinline int le_clock_changed(struct sock *sk, u32 was_ns)
{
	struct le_flow *f = le_of(sk);
	u32 tick_ns = f->delay.tick_ns;

	le_event(sk, f, CCBPF_EVENT_CLOCK, tick_ns, was_ns);
	if (tick_ns || !was_ns)
		return 0;
	flow_count(fallbacks);
	le_event(sk, f, CCBPF_EVENT_FALLBACK, CCBPF_SIGNAL_OWD, CCBPF_SIGNAL_RTT);
	return 0;
}

/* Take this ACK's delay; true: a block has ended. Only in states Open and Disorder: in other
 * states the newest packet that arrived may be a retransmission. */
static __always_inline bool le_measure(struct sock *sk, struct le_flow *f, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	bool spaced, ended;
	u32 tick_ns = f->delay.tick_ns, queue_us, since_us;
	struct delay_params p;
	struct delay_ack a;
	struct le_path path;

	if (law_unlikely(sock_ca_state(sk) > TCP_CA_Disorder))
		return false;
	le_read_ack(sk, f, &a);
	if (law_unlikely(!a.rtt_us))
		return false;
	le_delay_params(f, &p);
	spaced = tp->snd_cwnd >= LE_SPACED && !le_small(f);
	since_us = spacing_heard(&f->spacing, tp->tcp_mstamp, law_forget(spaced ? acked : 0));
	if (law_unlikely(noise_turn(&f->noise, tp->snd_una, tp->snd_nxt)))
		le_round_ended(sk);
	queue_us = delay_measure(&f->delay, &a, &p);
	if (law_unlikely(silence_was(since_us, f->spacing.packet_us)))
		silence_take(&f->silence, since_us, queue_us, le_us(f->law.last), false);
	if (law_unlikely(f->delay.tick_ns != tick_ns))
		le_clock_changed(sk, tick_ns);
	if (law_likely(!le_small(f)))
		falls_put(&f->noise, queue_us);
	le_path(f, &path);
	ended = le_sample(&f->law,
			  &(struct le_ack){ queue_us, acked, tp->packets_out, tp->sacked_out },
			  tp->snd_cwnd, &path);
	if (law_unlikely(ended && le_small(f)))
		le_notice_flat(sk);
	return ended;
}

#endif
