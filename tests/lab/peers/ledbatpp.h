/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The law of LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus), and of Apple's variant of it.
 * ledbatpp.bpf.c has the specification, the sources and the deviations.
 *
 *	T = 60 ms, q = current - base, 1/F the gain
 *
 *	        q > 3/4 T, or a loss           2 RTT later, then 9 times
 *	                                       the last slowdown's length
 *	  START --------------------> AVOID ------------------------------> SLOW
 *	  w += acked / F                ^                                   w = 2 for 2 RTT
 *	                                |                                    |
 *	                                +-------------- RAMP <---------------+
 *	                                 w = ssthresh   w += acked / F
 *
 *	AVOID, per RTT	 q <= T: w += 1/F     q > T: w += max(1/F - w (q/T - 1), -w/2)
 *
 * Ranges: RTTs up to 8.4 s, and windows up to 2^24 packets, saturating; times in ms on a circle
 * of 2^32.
 */
#ifndef CCBPF_TESTS_LEDBATPP_H
#define CCBPF_TESTS_LEDBATPP_H

#include "law/fixed.h"

#define LEDBATPP_TARGET_US 60000
#define LEDBATPP_APPLE_TARGET_US 40000
#define LEDBATPP_GAIN_MOST 16 /* the largest F */
#define LEDBATPP_MINUTES 10
#define LEDBATPP_MINUTE_MS 60000
#define LEDBATPP_SAMPLES 4
#define LEDBATPP_LEAST 2 /* packets */
#define LEDBATPP_WAIT_RTTS 2 /* from the end of slow start to the first slowdown */
#define LEDBATPP_SLOW_RTTS 2
#define LEDBATPP_APART 9 /* lengths of a slowdown until the next one */
#define LEDBATPP_DEFER_MS 30000 /* Apple's: no slowdown for so long after a decrease */
#define LEDBATPP_RTT_MAX_US (1u << 23)
#define LEDBATPP_NONE (~0u) /* no RTT yet */
#define LEDBATPP_ONE 720720 /* a packet in the unit of `fraction`: each F divides it */
#define LEDBATPP_WINDOW_MAX (1u << 24)

enum ledbatpp_phase {
	LEDBATPP_START,
	LEDBATPP_AVOID,
	LEDBATPP_SLOW,
	LEDBATPP_RAMP,
};

struct ledbatpp {
	u32 minutes_us[LEDBATPP_MINUTES]; /* the smallest RTT of each of the last minutes */
	u32 samples_us[LEDBATPP_SAMPLES]; /* the last RTTs */
	u32 rolled_ms; /* when this minute began */
	u32 due_ms; /* AVOID: the next slowdown; SLOW: its 2 RTT are over */
	u32 began_ms; /* this slowdown */
	u32 window; /* packets: in and out, as is ssthresh */
	u32 ssthresh;
	u32 fraction; /* 1/LEDBATPP_ONE packet, beside the window */
	u32 acked; /* packets of this round */
	u8 phase;
	u8 apple; /* the variant */
};

/* window and ssthresh are the caller's. */
LAW void ledbatpp_begin(struct ledbatpp *l, bool apple, u32 now_ms)
{
	for (u32 i = 0; i < LEDBATPP_MINUTES; i++)
		l->minutes_us[i] = LEDBATPP_NONE;
	for (u32 i = 0; i < LEDBATPP_SAMPLES; i++)
		l->samples_us[i] = LEDBATPP_NONE;
	l->rolled_ms = now_ms;
	l->due_ms = l->began_ms = now_ms;
	l->fraction = l->acked = 0;
	l->phase = LEDBATPP_START;
	l->apple = apple;
}

/* --- measure ----------------------------------------------------------- */

/* The newest is the first: the verifier knows constant places of a connection's state only. */
LAW void ledbatpp_sample(struct ledbatpp *l, u32 rtt_us, u32 now_ms)
{
	bool turn = now_ms - l->rolled_ms >= LEDBATPP_MINUTE_MS;

	rtt_us = law_clamp(rtt_us, 1, LEDBATPP_RTT_MAX_US);
	for (u32 i = LEDBATPP_SAMPLES - 1; i > 0; i--)
		l->samples_us[i] = l->samples_us[i - 1];
	l->samples_us[0] = rtt_us;
	if (turn) {
		for (u32 i = LEDBATPP_MINUTES - 1; i > 0; i--)
			l->minutes_us[i] = l->minutes_us[i - 1];
		l->minutes_us[0] = rtt_us;
		l->rolled_ms = now_ms;
	}
	l->minutes_us[0] = law_min(l->minutes_us[0], rtt_us);
}

LAW u32 ledbatpp_base_us(const struct ledbatpp *l)
{
	u32 base_us = LEDBATPP_NONE;

	for (u32 i = 0; i < LEDBATPP_MINUTES; i++)
		base_us = law_min(base_us, law_forget(l->minutes_us[i]));
	return base_us;
}

LAW u32 ledbatpp_queue_us(const struct ledbatpp *l)
{
	u32 current_us = LEDBATPP_NONE, base_us = ledbatpp_base_us(l);

	for (u32 i = 0; i < LEDBATPP_SAMPLES; i++)
		current_us = law_min(current_us, law_forget(l->samples_us[i]));
	return current_us > base_us ? current_us - base_us : 0;
}

LAW u32 ledbatpp_target_us(const struct ledbatpp *l)
{
	return l->apple ? LEDBATPP_APPLE_TARGET_US : LEDBATPP_TARGET_US;
}

/* F: the gain is 1/F. Before the first sample the least gain. */
LAW u32 ledbatpp_divisor(const struct ledbatpp *l)
{
	u32 base_us = ledbatpp_base_us(l), twice_us = 2 * ledbatpp_target_us(l);

	if (base_us == LEDBATPP_NONE)
		return LEDBATPP_GAIN_MOST;
	return law_min(LEDBATPP_GAIN_MOST, (twice_us + base_us - 1) / base_us);
}

/* --- act --------------------------------------------------------------- */

/* 1/LEDBATPP_ONE packet */
LAW u64 ledbatpp_whole(const struct ledbatpp *l)
{
	return (u64)law_min(l->window, LEDBATPP_WINDOW_MAX) * LEDBATPP_ONE + l->fraction;
}

LAW void ledbatpp_set(struct ledbatpp *l, u64 whole)
{
	if (whole < LEDBATPP_LEAST * LEDBATPP_ONE)
		whole = LEDBATPP_LEAST * LEDBATPP_ONE;
	l->window = whole / LEDBATPP_ONE;
	l->fraction = whole % LEDBATPP_ONE;
}

/* 1/LEDBATPP_ONE packet, by which the window grows */
LAW u32 ledbatpp_gain(const struct ledbatpp *l)
{
	return LEDBATPP_ONE / law_max(ledbatpp_divisor(l), 1);
}

LAW void ledbatpp_slow_start(struct ledbatpp *l, u32 acked, bool grows)
{
	u64 whole = ledbatpp_whole(l) + (u64)acked * ledbatpp_gain(l);
	u64 most = (u64)l->ssthresh * LEDBATPP_ONE;

	if (grows)
		ledbatpp_set(l, whole < most ? whole : most);
}

/* Does the delay end this slow start? Only the first one; Apple's ends the others at T. */
LAW bool ledbatpp_delay_ends(const struct ledbatpp *l)
{
	u32 queue_us = ledbatpp_queue_us(l), target_us = ledbatpp_target_us(l);

	if (l->phase == LEDBATPP_START)
		return queue_us > target_us / 4 * 3;
	return l->apple && queue_us > target_us;
}

/* Slow start is over: when is the next slowdown? */
LAW void ledbatpp_avoid_from(struct ledbatpp *l, u32 rtt_us, u32 now_ms)
{
	u32 wait_ms = LEDBATPP_WAIT_RTTS * (u64)rtt_us / 1000;

	if (l->phase == LEDBATPP_RAMP) {
		wait_ms = LEDBATPP_APART * (now_ms - l->began_ms);
		if (l->apple && l->window < l->ssthresh)
			wait_ms *= 2;
	}
	l->due_ms = now_ms + wait_ms;
	l->ssthresh = law_min(l->ssthresh, l->window);
	l->acked = 0;
	l->phase = LEDBATPP_AVOID;
}

/* A round above the target. */
LAW void ledbatpp_decrease(struct ledbatpp *l, u32 gain, bool grows, u32 now_ms)
{
	u32 target_us = ledbatpp_target_us(l);
	u32 over_us = law_min(ledbatpp_queue_us(l) - target_us, target_us);
	u64 now = ledbatpp_whole(l), less = now * over_us / target_us, to;

	if (l->apple) {
		gain = 0;
		l->due_ms = now_ms + LEDBATPP_DEFER_MS;
	}
	to = less < now / 2 + gain ? now + gain - less : now - now / 2;
	if (grows || to < now)
		ledbatpp_set(l, to);
	l->ssthresh = law_min(l->ssthresh, l->window);
}

LAW void ledbatpp_avoid(struct ledbatpp *l, u32 acked, bool grows, u32 now_ms)
{
	u32 gain = ledbatpp_gain(l);

	l->acked += acked;
	if (l->acked < l->window)
		return;
	l->acked %= law_max(l->window, 1);
	if (ledbatpp_queue_us(l) > ledbatpp_target_us(l))
		ledbatpp_decrease(l, gain, grows, now_ms);
	else if (grows)
		ledbatpp_set(l, ledbatpp_whole(l) + (l->apple ? LEDBATPP_ONE : gain));
}

/* An ACK of @acked packets, after its sample; @grows: the window is what limits the flow. */
LAW void ledbatpp_ack(struct ledbatpp *l, u32 acked, bool grows, u32 rtt_us, u32 now_ms)
{
	bool due = !law_after(l->due_ms, now_ms);

	if (l->phase == LEDBATPP_AVOID && due) {
		l->phase = LEDBATPP_SLOW;
		l->ssthresh = l->window;
		l->began_ms = now_ms;
		l->due_ms = now_ms + LEDBATPP_SLOW_RTTS * (u64)rtt_us / 1000;
		due = false;
	}
	if (l->phase == LEDBATPP_SLOW) {
		l->window = LEDBATPP_LEAST;
		l->fraction = l->acked = 0;
		if (!due)
			return;
		l->phase = LEDBATPP_RAMP;
	}
	if (l->window < l->ssthresh && !ledbatpp_delay_ends(l)) {
		ledbatpp_slow_start(l, acked, grows);
		return;
	}
	if (l->phase != LEDBATPP_AVOID)
		ledbatpp_avoid_from(l, rtt_us, now_ms);
	ledbatpp_avoid(l, acked, grows, now_ms);
}

/* A loss: the new ssthresh. Where the window is held at 2, the loss is of what was sent before,
 * and halves what the flow comes back to; Apple's halves the 2. */
LAW u32 ledbatpp_loss(struct ledbatpp *l)
{
	bool held = l->phase == LEDBATPP_SLOW && !l->apple;
	u32 half = (held ? l->ssthresh : l->window) / 2;

	l->ssthresh = law_max(half, LEDBATPP_LEAST);
	return l->ssthresh;
}

/* A timeout. Apple's begins anew. */
LAW void ledbatpp_timeout(struct ledbatpp *l)
{
	l->acked = 0;
	if (l->apple)
		l->phase = LEDBATPP_START;
}

#endif
