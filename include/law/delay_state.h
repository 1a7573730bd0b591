/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The state of the delay estimator of one connection, what it reads of an ACK, and its
 * parameters. law/delay.h is the estimator, law/delay_clock.h the part that learns the
 * peer's clock, law/delay_buffer.h the part that learns the buffer.
 *
 * Ranges:
 *
 *  1. Delays are held in us, up to 2^23 (8.4 s); larger ones are cut to that.
 *  2. The smoothed delay is in 1/256 us, which fits 31 bits.
 *  3. One-way delays are relative to the connection's first pair of timestamps and
 *     fit 31 bits of us. That is enough for 60 days at a drift of 200 ppm; beyond it
 *     the clock is learned anew.
 */
#ifndef CCBPF_LAW_DELAY_STATE_H
#define CCBPF_LAW_DELAY_STATE_H

#include "law/aged.h"

#define DELAY_MAX_US (1u << 23)
#define DELAY_SMOOTHED_UNIT 256 /* of smoothed_q8, per us */
#define DELAY_NOT_SMOOTHED (~0u)
#define DELAY_FIRST 4 /* samples whose smallest begins the average */

struct delay {
	s32 anchor_owd_us; /* one-way delay at the anchor */
	u32 anchor_tsval; /* peer's ticks */
	u32 anchor_sent_us; /* our clock: its newest packet was sent */
	u32 anchor_queue_us; /* RTT's queueing delay at the anchor */
	u32 tick_ns; /* ns per tick of the peer's clock, 0: unknown */
	struct aged rtt; /* us, smallest */
	struct aged owd; /* us, smallest */
	u32 most_us; /* us: q_max */
	u32 rise_us; /* us: of the base, by delay_rebase() */
	u32 smoothed_q8; /* us / 256, or DELAY_NOT_SMOOTHED */
	u16 half; /* 65.5 ms: this half of the memory began */
	u8 anchored : 1;
	u8 timed : 1; /* half is set */
	u8 overflowed : 1; /* a loss has shown that q_max is that of the full buffer */
	u8 stale : 1; /* q_max is of the path as it was before delay_rebase() */
	u8 full : 2; /* losses in a row in the largest queue, up to DELAY_FULL */
	u8 samples : 3; /* smoothed since the restart, up to DELAY_FIRST */
};

/* What the law reads of one ACK. */
struct delay_ack {
	u64 now_us; /* our clock */
	u32 rtt_us; /* this ACK's round trip; 0: none, ignore the ACK */
	u32 tsval; /* peer's ticks */
	bool stamped; /* tsval counts */
	u32 own_us; /* us: what it waited for a packet of ours that left together with it */
};

struct delay_params {
	u32 delta; /* permille, 1 ... 999 */
	u32 smoothing; /* ACKs, >= 1 */
	u32 memory_s; /* s, 1 ... 3600 */
	u32 floor_us; /* us, <= DELAY_MAX_US */
	u32 least; /* samples that an indication needs, 1 ... DELAY_FIRST */
	u32 noise_us; /* us: of the path */
};

LAW void delay_init(struct delay *d)
{
	d->anchor_owd_us = 0;
	d->anchor_tsval = 0;
	d->anchor_sent_us = 0;
	d->anchor_queue_us = 0;
	d->tick_ns = 0;
	aged_reset(&d->rtt, AGED_NO_MIN);
	aged_reset(&d->owd, AGED_NO_MIN);
	d->most_us = 0;
	d->rise_us = 0;
	d->half = 0;
	d->smoothed_q8 = DELAY_NOT_SMOOTHED;
	d->anchored = 0;
	d->timed = 0;
	d->overflowed = 0;
	d->stale = 0;
	d->full = 0;
	d->samples = 0;
}

/* us: a delay that is measured against the base, after the base moved */
LAW void delay_move_one(s32 *v, s32 by_us)
{
	s64 moved = (s64)*v + by_us;

	*v = moved < 0 ? 0 : moved > DELAY_MAX_US ? (s32)DELAY_MAX_US : moved;
}

/* us: q_max */
LAW u32 delay_queue_max(const struct delay *d)
{
	return d->most_us;
}

/* us: smoothed queueing delay, 0 if none */
LAW u32 delay_smoothed(const struct delay *d)
{
	if (d->smoothed_q8 == DELAY_NOT_SMOOTHED)
		return 0;
	return d->smoothed_q8 / DELAY_SMOOTHED_UNIT;
}

/* us: the base round trip; 0: none yet */
LAW u32 delay_base_us(const struct delay *d)
{
	s32 base_us = aged_min(&d->rtt);

	return base_us == AGED_NO_MIN ? 0 : base_us;
}

#endif
