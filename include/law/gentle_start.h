/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A slow start that foreground traffic does not feel: it begins with less, is half as fast,
 * and ends when the delay rises, not when the buffer is full (RFC 9406, HyStart++, section
 * 4.2, made stricter).
 *
 *	begin	 with 4 packets (RFC 3390), where today's TCP has 10
 *	grow	 w += acked / 2: half as much again per RTT, where slow start doubles
 *	leave	 when 4 RTTs in a row are above the smallest so far by
 *		 clamp(that / 8, 4 ms, 16 ms)
 *
 * Any slow start, gentle or not (except ltcp's), is over when for a whole window of packets the delay was
 * above that limit, data waited, and the window was not what held the flow back. Something
 * else is the limit then: the queue of the sender's own device, or the receiver's window.
 * There may never be a loss there, so whatever begins after the first loss would never
 * begin. If the delay is not high, no queue holds the flow, but one of the two hosts.
 *
 * Why not the RFC's rounds: the smallest RTT of a round is known only a round trip after that
 * round was sent, and the next round is twice as large. On a buffer of one bandwidth-delay
 * product the RFC's way left slow start after the first loss, with the queue full. This one
 * leaves it with 0.3 to 0.5 of the buffer in the queue, on buffers of 20 packets or more
 * (test_gentle_start.py), and with a window that fills at least the path.
 *
 * Unlike the RFC there is no Conservative Slow Start: a background flow that leaves too early
 * only grows by a packet per RTT from there.
 */
#ifndef CCBPF_LAW_GENTLE_START_H
#define CCBPF_LAW_GENTLE_START_H

#include "law/fixed.h"

#define GENTLE_SAMPLES 4 /* in a row: ours, the RFC has 8 of a round */
#define GENTLE_RISE_MIN_US 4000 /* MIN_RTT_THRESH */
#define GENTLE_RISE_MAX_US 16000 /* MAX_RTT_THRESH */
#define GENTLE_RISE_SHIFT 3 /* MIN_RTT_DIVISOR 8 */
#define GENTLE_WINDOW 4 /* packets: the first window at the most */
#define GENTLE_NO_RTT (~0u)
#define GENTLE_HELD_MAX 0xffffu

struct gentle_start {
	u32 base_us; /* smallest RTT so far */
	u8 high; /* RTTs in a row above the limit */
	u8 half; /* acknowledged packets that are not counted yet: 0 or 1 */
	u16 held; /* packets acknowledged in a row while something else held the flow */
};

LAW void gentle_start_init(struct gentle_start *g)
{
	g->base_us = GENTLE_NO_RTT;
	g->high = 0;
	g->half = 0;
	g->held = 0;
}

/* us; base_us is known */
LAW u32 gentle_start_limit_us(const struct gentle_start *g)
{
	return g->base_us +
	       law_clamp(g->base_us >> GENTLE_RISE_SHIFT, GENTLE_RISE_MIN_US, GENTLE_RISE_MAX_US);
}

/* One ACK in slow start, rtt_us in 1 ... 2^23; true: leave slow start. */
LAW bool gentle_start_ack(struct gentle_start *g, u32 rtt_us)
{
	g->base_us = law_min(g->base_us, rtt_us);
	if (rtt_us < gentle_start_limit_us(g))
		g->high = 0;
	else if (g->high < GENTLE_SAMPLES)
		g->high++;
	return g->high == GENTLE_SAMPLES;
}

/* packets, below 2^31: how many of the acknowledged packets slow start may count */
LAW u32 gentle_start_counted(struct gentle_start *g, u32 acked)
{
	u32 counted = acked / 2 + (g->half & acked & 1);

	g->half = (g->half ^ acked) & 1;
	return counted;
}

/* One ACK in slow start while the window limits the flow; rtt_us as above, or 0: none yet. */
LAW void gentle_start_limited(struct gentle_start *g, u32 rtt_us)
{
	g->held = 0;
	if (rtt_us)
		g->base_us = law_min(g->base_us, rtt_us);
}

/* One ACK of @acked packets while something else limits the flow; @waits: unsent data waits.
 * True: the delay was high for a whole window of packets, leave slow start. */
LAW bool gentle_start_held(struct gentle_start *g, u32 acked, u32 window, u32 rtt_us, bool waits)
{
	bool held;

	if (rtt_us)
		g->base_us = law_min(g->base_us, rtt_us);
	held = waits && rtt_us && rtt_us >= gentle_start_limit_us(g);
	if (!held)
		acked = g->held = 0;
	g->held = law_min(g->held + law_min(acked, GENTLE_HELD_MAX), GENTLE_HELD_MAX);
	return held && g->held >= law_min(window, GENTLE_HELD_MAX);
}

#endif
