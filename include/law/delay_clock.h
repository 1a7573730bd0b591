/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The peer's clock and the one-way delay (papers: tcp-lp VI-A).
 *
 * The one-way delay. The peer's timestamp (TSval), less the time at which we sent the
 * packet that made the peer send the ACK (now - rtt), is the one-way delay up to a
 * constant. Its resolution is one tick of the peer's clock, which is 1 ms on most
 * paths. The echoed timestamp (TSecr) is not used: for a delayed ACK it is that of the
 * oldest packet, and where packets are missing it is that of the hole's beginning, so
 * the time between the two would be part of the delay. Our own time is always that of
 * the newest packet.
 *
 * Learning the tick. The peer's tick is not known. It is measured over a window of at
 * least 1 s of our sending times, and then taken from the table of ticks in use:
 *
 *	error  <= queueing delay of the window's two ACKs
 *	window >= 128 error		so the error is below 0.8 % (and a tick)
 *
 * The two closest ticks in use (1/1000 and 1/1024 s) differ by 2.4 %. This holds when
 * the path was empty once, so that rtt_min is its base delay.
 *
 * Assuming the tick. Long queues need long windows: 100 ms in the reverse path need
 * 13 s. So after 1 s, if the error is below 1/8 of the window, the clock is assumed to
 * tick in 1 ms if it may do so (Linux's clock does, and most others). The only tick in
 * use that could be mistaken for 1 ms is 1/1024 s, a faster one: then the one-way delay
 * seems to grow, it confirms every queue, and the RTT serves as before.
 *
 * Checking the tick. The measurement is repeated for the connection's lifetime. The
 * tick of a peer whose clock stands still, jumps, runs backwards or lies is dropped
 * within one such window, and the RTT serves.
 *
 * Wrap-around. Timestamps are compared as signed differences to an anchor that is never
 * older than such a window, so neither random offsets nor the wrap of 32 bits matter. A
 * silence of 2^31 us (36 minutes) drops the anchor and the tick (law/delay.h). The clock
 * that measures silences wraps as the us do, after 71.6 minutes; a longer silence that
 * looks short to both clocks gives a one-way delay out of range, which drops a known
 * tick as well.
 */
#ifndef CCBPF_LAW_DELAY_CLOCK_H
#define CCBPF_LAW_DELAY_CLOCK_H

#include "law/delay_state.h"

#define DELAY_CLOCK_WINDOW_NS 1000000000ll /* VI-A: one second */
#define DELAY_CLOCK_PRECISION 128 /* window / error, see above */
#define DELAY_ASSUME_PRECISION 8 /* the same, before a tick is assumed */
#define DELAY_ASSUMED_TICK_NS 1000000
#define DELAY_OWD_LIMIT_US (1ll << 30)

/* Set another tick, or none. The one-way delay begins at the anchor. The queue there was at most
 * the RTT's queueing delay, so the base is taken to be that much below the anchor's one-way
 * delay, however long the queue is now. */
LAW void delay_set_tick(struct delay *d, u32 tick_ns)
{
	if (tick_ns == d->tick_ns)
		return;
	d->tick_ns = tick_ns;
	d->anchor_owd_us = 0;
	aged_reset(&d->owd, AGED_NO_MIN);
	if (tick_ns)
		aged_put_min(&d->owd, -(s32)d->anchor_queue_us);
}

/* The tick in use that makes @ticks last @elapsed_ns (1 s ... 2^31 ms) best, or
 * 0 if none is within 1/64. @ticks < 2^31, so products fit 55 bits. */
LAW u32 delay_snap_tick(u32 ticks, s64 elapsed_ns)
{
	static const u32 in_use_ns[] = { 1000000, 1000, 10000000, 4000000, 1953125, 976562 };
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

/* ns: one-way delay of the ACK's newest packet relative to the connection's first pair */
LAW s64 delay_owd_ns(const struct delay *d, const struct delay_ack *a)
{
	s64 theirs = (s64)(s32)(a->tsval - d->anchor_tsval) * d->tick_ns;
	s32 ours_us = (u32)a->now_us - a->rtt_us - d->anchor_sent_us;

	return d->anchor_owd_us * 1000ll + theirs - ours_us * 1000ll;
}

/* Is it out of range? Then one of the two clocks has jumped, or wrapped around. */
LAW bool delay_owd_far(s64 owd_ns)
{
	return law_unlikely(owd_ns > DELAY_OWD_LIMIT_US * 1000 ||
			    owd_ns < -DELAY_OWD_LIMIT_US * 1000);
}

/* floor(ns / 1000), without signed division */
LAW s64 delay_us(s64 ns)
{
	return ns >= 0 ? (s64)((u64)ns / 1000) : -(s64)((u64)(999 - ns) / 1000);
}

LAW void delay_anchor(struct delay *d, const struct delay_ack *a, s64 owd_ns, u32 rtt_queue_us)
{
	d->anchor_owd_us = delay_us(owd_ns);
	d->anchor_tsval = a->tsval;
	d->anchor_sent_us = a->now_us - a->rtt_us;
	d->anchor_queue_us = rtt_queue_us;
	d->anchored = 1;
}

/* The error is too large to tell ticks apart: may the tick be the usual one? */
LAW void delay_assume_tick(struct delay *d, s32 ticks, s64 elapsed_ns, s64 error_ns)
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
LAW void delay_clock(struct delay *d, const struct delay_ack *a, u32 rtt_queue_us)
{
	s32 ticks = a->tsval - d->anchor_tsval;
	u32 sent_us = a->now_us - a->rtt_us;
	s64 elapsed_ns = (s64)(s32)(sent_us - d->anchor_sent_us) * 1000;
	s64 error_ns = ((s64)rtt_queue_us + d->anchor_queue_us) * 1000;
	u32 tick_ns = 0;
	s64 owd_ns;

	if (law_unlikely(!d->anchored || (!d->tick_ns && rtt_queue_us < d->anchor_queue_us))) {
		delay_anchor(d, a, 0, rtt_queue_us);
		return;
	}
	if (law_likely(elapsed_ns > -DELAY_CLOCK_WINDOW_NS && elapsed_ns < DELAY_CLOCK_WINDOW_NS))
		return;
	if (elapsed_ns > 0 && elapsed_ns < error_ns * DELAY_CLOCK_PRECISION) {
		if (!d->tick_ns)
			delay_assume_tick(d, ticks, elapsed_ns, error_ns);
		return;
	}
	if (elapsed_ns > 0 && ticks > 0 && !(d->tick_ns && delay_owd_far(delay_owd_ns(d, a))))
		tick_ns = delay_snap_tick(ticks, elapsed_ns);
	delay_set_tick(d, tick_ns);
	owd_ns = tick_ns ? delay_owd_ns(d, a) : 0;
	delay_anchor(d, a, owd_ns, rtt_queue_us);
}

/* us: @queue_us (the RTT's), but at most this one-way delay's rise above its base plus one tick.
 * Compared in ns: only the ACKs that need the division pay for it. */
LAW u32 delay_bounded(const struct delay *d, s64 owd_ns, u32 queue_us)
{
	s64 base_ns = aged_min(&d->owd) * 1000ll, bound_ns = d->tick_ns;

	if (owd_ns > base_ns)
		bound_ns += owd_ns - base_ns;
	return queue_us * 1000ll > bound_ns ? delay_us(bound_ns) : queue_us;
}

/* The same for an ACK that is measured: its one-way delay may become the new base, or show that
 * the peer's clock has changed. */
LAW u32 delay_confirm(struct delay *d, const struct delay_ack *a, u32 queue_us)
{
	s64 owd_ns;

	if (!d->tick_ns)
		return queue_us;
	owd_ns = delay_owd_ns(d, a);
	if (delay_owd_far(owd_ns)) {
		delay_set_tick(d, 0);
		return queue_us;
	}
	if (owd_ns < d->owd.now * 1000ll)
		aged_put_min(&d->owd, delay_us(owd_ns));
	return delay_bounded(d, owd_ns, queue_us);
}

#endif
