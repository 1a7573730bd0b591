/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The delay estimator of TCP-LP: how much data waits ahead of ours, and is that
 * an early congestion indication? (papers: tcp-lp III-A, VI-A)
 *
 *	sd  = (1 - 1/smoothing) sd + d / smoothing                     (eq. 1)
 *	sd  > d_min + (d_max - d_min) delta   is an indication          (eq. 2)
 *
 * At the beginning, and after delay_restart(), sd is the smallest of the first
 * four samples, so that one late ACK of a busy host is not the average; and an
 * indication may ask for a least number of them.
 *
 * All of it is kept relative to d_min, as queueing delay q = d - d_min, so that
 * eq. 2 reads  sq > q_max delta.  A change of d_min moves sq and q_max by as
 * much, as it would with absolute values.
 *
 * The sample. A pair of timestamps (TSval of the peer, TSecr of ours) gives the
 * one-way delay up to a constant, to a tick of the coarser clock, which is 1 ms
 * on most paths; the round-trip time is exact to the microsecond but sees the
 * reverse path as well. The queue ahead of us is part of both, so
 *
 *	q = min(rtt - rtt_min, owd - owd_min + one tick)
 *
 * The RTT says how much, the one-way delay takes away what lies in the reverse
 * path, and a clock that runs fast (drift) cannot make a queue out of nothing.
 * Both clocks are read in whole ticks, so what is taken away leaves q at the
 * truth less the finer tick at least, and below the truth plus twice the coarser
 * and once the finer (and the drift since owd_min, up to delay_memory ago).
 *
 * The peer's tick is not known. It is measured over a window of at least 1 s and
 * taken from the table of ticks in use. The window is the time between the
 * sending of the two packets whose arrival made the peer send the ACKs that bound
 * it, now - rtt, and not TSecr, which is the oldest packet's of a delayed ACK. So
 * its error is at most the queueing delay of these two ACKs; a window ends only
 * when it is 128 times as long as that, so the error is below 0.8 % (and a tick),
 * and the ticks that are closest to each other (1/1000 and 1/1024 s) differ by
 * 2.4 %. This holds when the path was empty once, so that rtt_min is its base.
 * Where queues are long such a window is too: 100 ms in the reverse path need 13 s.
 * So after 1 s, if the error is below 1/8 of it, a clock that may tick in 1 ms is
 * assumed to (Linux's, and most others'). The only tick in use that could be taken
 * for it is 1/1024 s, a faster one: then the one-way delay seems to grow, confirms
 * all, and the RTT serves as before.
 * The measurement is repeated for ever: a peer whose clock stands still, jumps,
 * runs backwards or lies loses its tick within such a window, and the RTT serves.
 *
 * Ranges: delays are held in us, up to 2^23 (8.4 s), beyond which they are cut;
 * the smoothed one in 1/256 us, which fits 31 bits. One-way delays are relative
 * to the connection's first pair and fit 31 bits of us: 200 ppm of drift for 60
 * days; beyond that the clock is learned anew. Timestamps are compared as
 * signed differences to an anchor that is never older than such a window, so
 * neither random offsets nor the wrap of 32 bits is seen; a silence of 2^31 us
 * (36 minutes) forgets anchor and tick.
 */
#ifndef CCBPF_LAW_DELAY_H
#define CCBPF_LAW_DELAY_H

#include "law/aged.h"

#define DELAY_MAX_US (1u << 23)
#define DELAY_SMOOTHED_UNIT 256 /* of smoothed_q8, per us */
#define DELAY_NOT_SMOOTHED (~0u)
#define DELAY_FIRST 4 /* samples whose smallest begins the average */
#define DELAY_CLOCK_WINDOW_NS 1000000000ll /* VI-A: one second */
#define DELAY_CLOCK_PRECISION 128 /* window / error, see above */
#define DELAY_ASSUME_PRECISION 8 /* the same, before a tick is assumed */
#define DELAY_ASSUMED_TICK_NS 1000000
#define DELAY_OWD_LIMIT_US (1ll << 30)
#define DELAY_ANCHOR_KIUS (1u << 21) /* 2^31 us: the most that s32 us tell */

struct delay {
	s64 anchor_owd_ns; /* one-way delay at the anchor */
	u32 anchor_tsval; /* peer's ticks */
	u32 anchor_tsecr; /* our ticks */
	u32 anchor_sent_us; /* our clock: its newest packet was sent */
	u32 anchor_queue_us; /* RTT's queueing delay at the anchor */
	u32 tick_ns; /* ns per tick of the peer's clock, 0: unknown */
	struct aged rtt; /* us, smallest */
	struct aged owd; /* us, smallest */
	struct aged queue; /* us, largest */
	u32 half_kius; /* 1024 us: this half of the memory began */
	u32 smoothed_q8; /* us / 256, or DELAY_NOT_SMOOTHED */
	u8 anchored;
	u8 timed; /* half_kius is set */
	u8 samples; /* smoothed since the restart, up to DELAY_FIRST */
};

/* What the law reads of one ACK. */
struct delay_ack {
	u64 now_us; /* our clock */
	u32 rtt_us; /* this ACK's round trip; 0: none, ignore the ACK */
	u32 tsval; /* peer's ticks */
	u32 tsecr; /* our ticks */
	u32 our_tick_ns; /* 0: no timestamps on this ACK */
	bool lone; /* a single packet was in flight: its ACK may be a delayed one */
	bool half; /* of one packet of the last two: it may have waited for the other */
};

struct delay_params {
	u32 delta; /* permille, 1 ... 999 */
	u32 smoothing; /* ACKs, >= 1 */
	u32 memory_s; /* s, 1 ... 2^21 */
	u32 floor_us; /* us, <= DELAY_MAX_US */
	u32 least; /* samples that an indication needs, 1 ... DELAY_FIRST */
};

LAW void delay_init(struct delay *d)
{
	d->anchor_owd_ns = 0;
	d->anchor_tsval = 0;
	d->anchor_tsecr = 0;
	d->anchor_sent_us = 0;
	d->anchor_queue_us = 0;
	d->tick_ns = 0;
	aged_reset(&d->rtt, AGED_NO_MIN);
	aged_reset(&d->owd, AGED_NO_MIN);
	aged_reset(&d->queue, 0);
	d->half_kius = 0;
	d->smoothed_q8 = DELAY_NOT_SMOOTHED;
	d->anchored = 0;
	d->timed = 0;
	d->samples = 0;
}

/* Forget the smoothed delay, keep the extremes: after idle, and at the first
 * packet that was sent after a reaction. */
LAW void delay_restart(struct delay *d)
{
	d->smoothed_q8 = DELAY_NOT_SMOOTHED;
	d->samples = 0;
}

/* us: q_max */
LAW u32 delay_queue_max(const struct delay *d)
{
	return aged_max(&d->queue);
}

/* us: smoothed queueing delay, 0 if none */
LAW u32 delay_smoothed(const struct delay *d)
{
	if (d->smoothed_q8 == DELAY_NOT_SMOOTHED)
		return 0;
	return d->smoothed_q8 / DELAY_SMOOTHED_UNIT;
}

/* us: the floor of the threshold; half of q_max at the most, or small buffers
 * would never indicate. */
LAW u32 delay_floor(const struct delay *d,
			      const struct delay_params *p)
{
	return law_min(p->floor_us, delay_queue_max(d) / 2);
}

/* us: eq. 2's right side, rounded down (for people; delay_indicates is exact) */
LAW u32 delay_threshold(const struct delay *d,
				  const struct delay_params *p)
{
	u32 part = (u64)delay_queue_max(d) * p->delta / 1000;

	return law_max(part, delay_floor(d, p));
}

/* eq. 2. Both sides fit 41 bits. */
LAW bool delay_indicates(const struct delay *d,
				   const struct delay_params *p)
{
	u64 smoothed = d->smoothed_q8;
	u64 unit = DELAY_SMOOTHED_UNIT;

	if (d->smoothed_q8 == DELAY_NOT_SMOOTHED ||
	    d->samples < p->least)
		return false;
	return smoothed * 1000 > delay_queue_max(d) * unit * p->delta &&
	       smoothed > delay_floor(d, p) * unit;
}

LAW void delay_move_one(s32 *v, s32 by_us)
{
	s64 moved = (s64)*v + by_us;

	*v = moved < 0 ? 0 : moved > DELAY_MAX_US ? (s32)DELAY_MAX_US : moved;
}

/* The smoothed delay is not above the largest one. */
LAW void delay_cap_smoothed(struct delay *d)
{
	if (d->smoothed_q8 != DELAY_NOT_SMOOTHED)
		d->smoothed_q8 =
			law_min(d->smoothed_q8,
				delay_queue_max(d) * DELAY_SMOOTHED_UNIT);
}

/* The base fell (by_us > 0) or rose: what was measured against it moves. */
LAW void delay_base_moved(struct delay *d, s32 by_us)
{
	s64 smoothed_q8 = d->smoothed_q8 + (s64)by_us * DELAY_SMOOTHED_UNIT;
	s32 anchor_us = d->anchor_queue_us;

	delay_move_one(&d->queue.now, by_us);
	delay_move_one(&d->queue.before, by_us);
	delay_move_one(&anchor_us, by_us);
	d->anchor_queue_us = anchor_us;
	if (d->smoothed_q8 == DELAY_NOT_SMOOTHED)
		return;
	d->smoothed_q8 = smoothed_q8 > 0 ? smoothed_q8 : 0;
	delay_cap_smoothed(d);
}

/* Another tick, or none. The one-way delay begins at the anchor, whose queue was
 * at most the RTT's: so its base is at least that much lower, however long the
 * queue is by now. */
LAW void delay_set_tick(struct delay *d, u32 tick_ns)
{
	if (tick_ns == d->tick_ns)
		return;
	d->tick_ns = tick_ns;
	d->anchor_owd_ns = 0;
	aged_reset(&d->owd, AGED_NO_MIN);
	if (tick_ns)
		aged_put_min(&d->owd, -(s32)d->anchor_queue_us);
}

/* Turn the halves of the memory when it is time. What was smoothed may be older
 * than the largest delay that is left. */
LAW void delay_age(struct delay *d, u64 now_us, u32 memory_s)
{
	u32 now_kius = now_us >> KIUS_SHIFT;

	if (law_unlikely(!d->timed)) {
		d->timed = 1;
		d->half_kius = now_kius;
		return;
	}
	if (law_likely(now_kius - d->half_kius < memory_s * KIUS_PER_S / 2))
		return;
	if (now_kius - d->half_kius >= DELAY_ANCHOR_KIUS) {
		d->anchored = 0;
		delay_set_tick(d, 0);
	}
	d->half_kius = now_kius;
	aged_turn(&d->rtt, AGED_NO_MIN);
	aged_turn(&d->owd, AGED_NO_MIN);
	aged_turn(&d->queue, 0);
	delay_cap_smoothed(d);
}

/* us: the RTT's queueing delay. Where the base moves, all that was measured
 * against it moves too. */
LAW u32 delay_rtt_queue(struct delay *d, u64 now_us, u32 rtt_us,
				  u32 memory_s)
{
	s32 base_was = aged_min(&d->rtt), base;

	delay_age(d, now_us, memory_s);
	aged_put_min(&d->rtt, rtt_us);
	base = aged_min(&d->rtt);
	if (law_unlikely(base_was != base && base_was != AGED_NO_MIN))
		delay_base_moved(d, base_was - base);
	return rtt_us - (u32)base;
}

/* The tick in use that makes @ticks last @elapsed_ns (1 s ... 2^31 ms) best, or
 * 0 if none is within 1/64. @ticks < 2^31, so products fit 55 bits. */
LAW u32 delay_snap_tick(u32 ticks, s64 elapsed_ns)
{
	static const u32 in_use_ns[] = { 1000000, 1000, 10000000, 4000000,
					 1953125, 976562 };
	s64 best_off = LAW_S32_MAX * 0x100000000ll;
	u32 best = 0;

	for (u32 i = 0; i < sizeof(in_use_ns) / sizeof(in_use_ns[0]); i++) {
		s64 off = (s64)ticks * in_use_ns[i] - elapsed_ns;

		if (off < 0)
			off = -off;
		if (off < best_off && off <= (elapsed_ns >> 6) + in_use_ns[i]) {
			best_off = off;
			best = in_use_ns[i];
		}
	}
	return best;
}

/* ns: one-way delay of the ACK relative to the connection's first pair */
LAW s64 delay_owd_ns(const struct delay *d, const struct delay_ack *a)
{
	s64 theirs = (s64)(s32)(a->tsval - d->anchor_tsval) * d->tick_ns;
	s64 ours = (s64)(s32)(a->tsecr - d->anchor_tsecr) * a->our_tick_ns;

	return d->anchor_owd_ns + theirs - ours;
}

LAW void delay_anchor(struct delay *d, const struct delay_ack *a,
				s64 owd_ns, u32 rtt_queue_us)
{
	d->anchor_owd_ns = owd_ns;
	d->anchor_tsval = a->tsval;
	d->anchor_tsecr = a->tsecr;
	d->anchor_sent_us = a->now_us - a->rtt_us;
	d->anchor_queue_us = rtt_queue_us;
	d->anchored = 1;
}

/* The error is too large to tell ticks apart: may it be the usual one? */
LAW void delay_assume_tick(struct delay *d, s32 ticks, s64 elapsed_ns,
			   s64 error_ns)
{
	s64 off = (s64)ticks * DELAY_ASSUMED_TICK_NS - elapsed_ns;

	if (elapsed_ns < error_ns * DELAY_ASSUME_PRECISION)
		return;
	if (off < 0)
		off = -off;
	if (off <= error_ns + DELAY_ASSUMED_TICK_NS)
		delay_set_tick(d, DELAY_ASSUMED_TICK_NS);
}

/* Learn the peer's tick, and go on checking it. */
LAW void delay_clock(struct delay *d, const struct delay_ack *a,
			       u32 rtt_queue_us)
{
	s32 ticks = a->tsval - d->anchor_tsval;
	u32 sent_us = a->now_us - a->rtt_us;
	s64 elapsed_ns = (s64)(s32)(sent_us - d->anchor_sent_us) * 1000;
	s64 error_ns = ((s64)rtt_queue_us + d->anchor_queue_us) * 1000;
	u32 tick_ns = 0;
	s64 owd_ns;

	if (law_unlikely(!d->anchored || (!d->tick_ns && rtt_queue_us <
						  d->anchor_queue_us))) {
		delay_anchor(d, a, 0, rtt_queue_us);
		return;
	}
	if (law_likely(elapsed_ns > -DELAY_CLOCK_WINDOW_NS &&
		       elapsed_ns < DELAY_CLOCK_WINDOW_NS))
		return;
	if (elapsed_ns > 0 && elapsed_ns < error_ns * DELAY_CLOCK_PRECISION) {
		if (!d->tick_ns)
			delay_assume_tick(d, ticks, elapsed_ns, error_ns);
		return;
	}
	if (elapsed_ns > 0 && ticks > 0)
		tick_ns = delay_snap_tick(ticks, elapsed_ns);
	delay_set_tick(d, tick_ns);
	owd_ns = delay_owd_ns(d, a);
	delay_anchor(d, a, owd_ns, rtt_queue_us);
}

/* floor(ns / 1000), without signed division */
LAW s64 delay_us(s64 ns)
{
	return ns >= 0 ? (s64)((u64)ns / 1000) : -(s64)((u64)(999 - ns) / 1000);
}

/* us: @queue_us (the RTT's) without what the one-way delay does not confirm.
 * Compared in ns: the division is for the ACKs that need it. */
LAW u32 delay_confirm(struct delay *d, const struct delay_ack *a,
				u32 queue_us)
{
	s64 owd_ns, bound_ns;

	if (!d->tick_ns)
		return queue_us;
	owd_ns = delay_owd_ns(d, a);
	if (law_unlikely(owd_ns > DELAY_OWD_LIMIT_US * 1000 ||
			 owd_ns < -DELAY_OWD_LIMIT_US * 1000)) {
		delay_set_tick(d, 0);
		return queue_us;
	}
	if (owd_ns < d->owd.now * 1000ll)
		aged_put_min(&d->owd, delay_us(owd_ns));
	bound_ns = owd_ns - aged_min(&d->owd) * 1000ll +
		   law_max(d->tick_ns, a->our_tick_ns);
	return queue_us * 1000ll > bound_ns ? delay_us(bound_ns) : queue_us;
}

/* eq. 1, from its beginning on. Before the first sample smoothed_q8 is above all
 * others: DELAY_NOT_SMOOTHED. */
LAW void delay_smooth(struct delay *d, u32 queue_q8, u32 smoothing)
{
	if (law_likely(d->samples == DELAY_FIRST)) {
		d->smoothed_q8 = law_ewma(d->smoothed_q8, queue_q8, smoothing);
		return;
	}
	d->samples++;
	d->smoothed_q8 = law_min(d->smoothed_q8, queue_q8);
}

/* What was taken for a queue is the path: its base delay rose to this RTT (us, 1
 * ... 2^23). Returns by how much. The one-way delay's base stays, as nobody knows
 * which way became longer: until it is forgotten the RTT decides. */
LAW u32 delay_rebase(struct delay *d, u32 rtt_us)
{
	s32 rise_us = (s32)law_min(rtt_us, DELAY_MAX_US) - aged_min(&d->rtt);

	if (rise_us <= 0)
		return 0;
	aged_reset(&d->rtt, aged_min(&d->rtt) + rise_us);
	delay_base_moved(d, -rise_us);
	return rise_us;
}

/* us: more than this is no queue. Of half of a pair: q_max, where there is one. */
LAW u32 delay_most(const struct delay *d, const struct delay_ack *a)
{
	u32 most_us = a->half ? delay_queue_max(d) : 0;

	return law_forget(most_us ? most_us : DELAY_MAX_US);
}

/*
 * One ACK that advanced snd_una in state Open (others may carry the TSecr of an
 * older segment: never feed those). Returns the queueing delay in us, which
 * is not smoothed if the packet was alone. Half of a pair counts as q_max at the most,
 * where there is one: the receiver waits for the other half, which a full queue may
 * have dropped. With rtt_us = 0 nothing happens.
 */
LAW u32 delay_sample(struct delay *d, const struct delay_ack *a,
			       const struct delay_params *p)
{
	u32 queue_us, told_us, rtt_us = law_min(a->rtt_us, DELAY_MAX_US);

	if (!rtt_us)
		return 0;
	queue_us = delay_rtt_queue(d, a->now_us, rtt_us, p->memory_s);
	if (a->our_tick_ns) {
		delay_clock(d, a, queue_us);
		queue_us = delay_confirm(d, a, queue_us);
	}
	if (a->lone)
		return queue_us;
	told_us = law_forget(law_min(queue_us, delay_most(d, a)));
	aged_put_max(&d->queue, told_us);
	delay_smooth(d, told_us * DELAY_SMOOTHED_UNIT, p->smoothing);
	return queue_us;
}

#endif
