/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Random Early Detection of a queue in bytes (S. Floyd, V. Jacobson: "Random Early
 * Detection Gateways for Congestion Avoidance", IEEE/ACM ToN 1993; with the thresholds of
 * the NF-TCP paper, 3.1 and table 1).
 *
 *	avg <- (1-w) avg + w q			at each packet, w = 2^-shift
 *	avg <- (1-w)^m avg			m packets could have been sent while it was empty
 *	p_b  = 0				avg <= min
 *	     = (avg - min) / (max - min)	min < avg <= max
 *	     = 1				avg > max
 *
 * Marks are spaced evenly, not drawn for each packet alone: the first packet since the
 * last mark (or since avg rose above min) with count p_b >= R is marked, R uniform in [0, 1)
 * and drawn once for each mark. The gap between two marks is uniform in 1 ... 1/p_b packets
 * (Floyd and Jacobson, section 7, method 2).
 *
 * Deviations from the paper:
 *
 *  1. An skb may be a train of n packets (GSO). It counts as n: n steps of the average, in
 *     closed form with the queue that its first packet met, and n for the count. It is
 *     marked as a whole if any of its packets were to be marked.
 *  2. p_b reaches 1 at max. RED has a max_p below 1 there. NF-TCP's paper names none, and
 *     a jump at max would be one more number to choose.
 *  3. A packet that finds the queue empty is a sample (q = 0), in addition to the idle time
 *     before it. RED knows the moment when the queue became empty; we do not. We count the
 *     idle time from the last arrival, less the time to send what waited then.
 *  4. min = max is a step: a packet is marked if avg > min.
 *
 * Ranges: sizes are bytes up to 2^32-1, the average is Q16 of it (48 bits). Thresholds are
 * 1/1000 % of the limit, 0 ... 100000. shift is 0 ... 15. Products stay below 2^63: see each.
 */
#ifndef CCBPF_LAW_RED_H
#define CCBPF_LAW_RED_H

#include "law/fixed.h"

#define RED_WHOLE 100000 /* 100 % in 1/1000 % */

#define RED_SHIFT_MAX 15 /* w = 1/32768 */

/* After this many times 1/w steps nothing of an average is left: e^-64 2^48 < 1. */
#define RED_FORGOTTEN 64u

#define RED_STEPS_BITS 22 /* RED_FORGOTTEN << RED_SHIFT_MAX = 2^21 steps */

#define RED_TRAIN_BITS 6 /* of the packets in one GSO skb, nearly always */

#define RED_COUNT_MAX (1u << 22) /* packets since the last mark: then it is due */

#define RED_BUCKETS 33 /* of a histogram of u32 values: empty, and one per bit */

struct red_curve {
	u32 limit_bytes;
	u32 min; /* 1/1000 % of the limit */
	u32 max; /* not below min */
};

struct red_spacing {
	u32 count; /* packets since the last mark, 0: draw anew */
	u32 random_q16; /* R */
};

enum red_zone {
	RED_BELOW, /* no mark */
	RED_BETWEEN, /* some */
	RED_ABOVE /* all */
};

/* v f for f < 1 in Q32, rounded down; any v */
LAW u64 red_scale(u64 v, u32 f_q32)
{
	return (v >> 32) * f_q32 + ((v & 0xffffffff) * f_q32 >> 32);
}

/* One bit of the exponent n. */
LAW void red_keep_bit(u32 n, u32 *square, u32 *keep)
{
	u32 odd = -(n & 1), factor;

	asm("" : "+r"(odd)); /* or the compiler makes a branch of it */
	factor = ~(odd & ~*square); /* or almost 1 */
	*keep = (u64)*keep * factor >> 32;
	*square = (u64)*square * *square >> 32;
}

/* Q32: (1 - 2^-shift)^n by squaring, for shift and n of at least 1; n below
 * 2^RED_STEPS_BITS. Every product is rounded down, and squaring doubles an error: the power
 * p is too small by at most (3 RED_STEPS_BITS + n p) 2^-32, which is 3 10^-6 at the worst.
 * No branch depends on a bit of n: the verifier would follow both ways of each. The loop over
 * the bits of a train has a constant length, because a CPU mispredicts a loop's end. */
LAW u32 red_keep_q32(u32 shift, u32 n)
{
	u32 square = -(1u << (32 - shift)), keep = ~0u;

	for (u32 i = 0; i < RED_TRAIN_BITS; i++, n >>= 1)
		red_keep_bit(n, &square, &keep);
	for (u32 i = RED_TRAIN_BITS; i < RED_STEPS_BITS && n; i++, n >>= 1)
		red_keep_bit(n, &square, &keep);
	return keep;
}

/* n steps of the average towards a queue that stands still, n of at least 1. It never
 * overshoots, and gets there. */
LAW u64 red_average_q16(u64 average_q16, u32 queue_bytes, u32 shift, u32 n)
{
	u64 queue_q16 = (u64)queue_bytes << 16;
	bool above = average_q16 > queue_q16;
	u64 away = above ? average_q16 - queue_q16 : queue_q16 - average_q16;

	shift = law_min(shift, RED_SHIFT_MAX);
	if (!shift || n >= RED_FORGOTTEN << shift)
		return queue_q16;
	if (law_likely(n == 1)) /* what the power gives, too */
		away -= (away + (1u << shift) - 1) >> shift;
	else
		away = red_scale(away, red_keep_q32(shift, n));
	return above ? queue_q16 + away : queue_q16 - away;
}

/* Packets that could have left an empty queue since the last arrival, elapsed_ns ago. At that
 * time waiting_bytes waited, that packet included, and were sent first. packet_ns: the time that
 * the link needs for packet_bytes; 0: not known, and the result is 0. */
LAW u32 red_idle_packets(u64 elapsed_ns, u32 packet_ns, u32 waiting_bytes, u32 packet_bytes)
{
	u64 sent, could;

	if (!packet_ns || !packet_bytes)
		return 0;
	could = elapsed_ns / packet_ns;
	sent = ((u64)waiting_bytes + packet_bytes - 1) / packet_bytes;
	if (could <= sent)
		return 0;
	could -= sent;
	return could < 1u << (RED_STEPS_BITS - 1) ? (u32)could : 1u << (RED_STEPS_BITS - 1);
}

/* The average and the thresholds in the same unit: bytes, 1/1000 % and 8 bits more; 2^57 at
 * the most. */
LAW u64 red_place(u64 average_q16)
{
	return (average_q16 >> 8) * RED_WHOLE;
}

LAW u64 red_threshold(const struct red_curve *c, u32 part)
{
	return ((u64)c->limit_bytes * law_min(part, RED_WHOLE)) << 8;
}

LAW enum red_zone red_zone(u64 average_q16, const struct red_curve *c)
{
	u64 place = red_place(average_q16);

	if (place <= red_threshold(c, c->min))
		return place > red_threshold(c, c->max) ? RED_ABOVE : RED_BELOW;
	return place > red_threshold(c, c->max) ? RED_ABOVE : RED_BETWEEN;
}

/* Between the thresholds: is one of these n packets to be marked? random: 32 random bits,
 * asked for only where the count is 0. */
LAW bool red_due(u64 average_q16, const struct red_curve *c, struct red_spacing *s, u32 n,
		 u32 random)
{
	u64 min = red_threshold(c, c->min);
	u64 part = (red_place(average_q16) - min) >> 17; /* < 2^40 */
	u64 whole = (red_threshold(c, c->max) - min) >> 17;

	if (!s->count)
		s->random_q16 = random >> 16;
	s->count = law_min(s->count + law_min(n, RED_COUNT_MAX), RED_COUNT_MAX);
	if (s->count < RED_COUNT_MAX && part * s->count < whole * (s->random_q16 & 0xffff) >> 16)
		return false;
	s->count = 0;
	return true;
}

/* Bucket of a histogram: 0 for 0, else 1 + log2, rounded down. */
LAW u32 red_bucket(u32 v)
{
	u32 bucket = !!v;

	for (u32 bits = 16; bits; bits /= 2)
		if (v >> bits) {
			v >>= bits;
			bucket += bits;
		}
	return bucket;
}

#endif
