/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Leave slow start when the delay rises, not when the buffer is full (after
 * RFC 9406, HyStart++, section 4.2).
 *
 *	round	 until the first ACK for something that was sent after its beginning
 *	leave	 when the smallest RTT of a round (of 8 samples at least) is above
 *		 the one of the round before by clamp(that / 8, 4 ms, 16 ms)
 *
 * Other than the RFC there is no Conservative Slow Start: a background flow that
 * leaves too early only grows by a packet per RTT from there.
 */
#ifndef CCBPF_LAW_GENTLE_START_H
#define CCBPF_LAW_GENTLE_START_H

#include "law/fixed.h"

#define GENTLE_SAMPLES 8 /* N_RTT_SAMPLE */
#define GENTLE_RISE_MIN_US 4000 /* MIN_RTT_THRESH */
#define GENTLE_RISE_MAX_US 16000 /* MAX_RTT_THRESH */
#define GENTLE_RISE_SHIFT 3 /* MIN_RTT_DIVISOR 8 */
#define GENTLE_NO_RTT (~0u)

struct gentle_start {
	u32 round_end; /* sequence number */
	u32 round_min_us; /* smallest RTT of this round */
	u32 last_min_us; /* ... and of the one before */
	u8 samples; /* of this round, up to GENTLE_SAMPLES */
	u8 begun; /* round_end counts */
};

LAW void gentle_start_init(struct gentle_start *g)
{
	g->round_end = 0;
	g->round_min_us = GENTLE_NO_RTT;
	g->last_min_us = GENTLE_NO_RTT;
	g->samples = 0;
	g->begun = 0;
}

LAW u32 gentle_start_limit_us(const struct gentle_start *g)
{
	return g->last_min_us + law_clamp(g->last_min_us >> GENTLE_RISE_SHIFT,
					  GENTLE_RISE_MIN_US,
					  GENTLE_RISE_MAX_US);
}

/* One ACK in slow start, rtt_us in 1 ... 2^23; true: leave slow start. */
LAW bool gentle_start_ack(struct gentle_start *g, u32 rtt_us,
				    u32 snd_una, u32 snd_nxt)
{
	if (!g->begun || law_after(snd_una, g->round_end)) {
		g->begun = 1;
		g->round_end = snd_nxt;
		g->last_min_us = g->round_min_us;
		g->round_min_us = GENTLE_NO_RTT;
		g->samples = 0;
	}
	g->round_min_us = law_min(g->round_min_us, rtt_us);
	if (g->samples < GENTLE_SAMPLES)
		g->samples++;
	return g->samples == GENTLE_SAMPLES &&
	       g->last_min_us != GENTLE_NO_RTT &&
	       g->round_min_us >= gentle_start_limit_us(g);
}

#endif
