/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * HighSpeed TCP's increase and decrease (RFC 3649, sections 5 and 7), and how
 * HSTCP-LP joins them to TCP-LP's reactions. w is a window in packets.
 *
 *	L(w) = ln(w / 38) / ln(83000 / 38)	0 at W_low, 1 at W_high
 *	p(w) = 0.078 / w^1.2			the loss rate that gives w (section 5)
 *	b(w) = 0.5 - 0.4 L(w)			decrease, 0.1 at W_high
 *	a(w) = 2 w^2 p(w) b(w) / (2 - b(w))	increase, packets per RTT
 *	c(w) = 37/38 - (37/38 - 0.1) L(w)	decrease at persistent congestion
 *
 *	w <= 38	a = 1, b = 1/2, second indication: 1 packet. TCP-LP, to the packet
 *	w > 38	first indication, loss: w -= b(w) w; another one: w -= c(w) w
 *
 * c is ours: at 38 it leaves the one packet that TCP-LP leaves, at W_high it is b.
 * It is never below b, so that another indication never takes less than a first.
 *
 * a(w) is the table of the RFC's appendix B: row n begins where the formula passes
 * n by its steps, and n packets per RTT hold until the next one. So a is a whole
 * number, from 41 packets on at most the formula's and less than 1.08 below it; and a window of w
 * packets, each counted a times, earns a packets with nothing lost in rounding.
 *
 * Ranges: w below 2^32 - 1; beyond 100 000 the coefficients are those of 100 000.
 * L, b and c are in 1/65536, with an error of at most 3 units; the windows that they
 * leave are rounded down. a <= 73, so acked * a fits 32 bits for 2^25 packets per ACK.
 */
#ifndef CCBPF_LAW_HIGHSPEED_H
#define CCBPF_LAW_HIGHSPEED_H

#include "law/inference.h"

#define HIGHSPEED_LOW 38 /* W_low, section 5 */
#define HIGHSPEED_HIGH 83000 /* W_high */
#define HIGHSPEED_TOP 100000 /* where appendix B ends */
#define HIGHSPEED_ROWS 73
#define HIGHSPEED_TABLE 128 /* with room to the next power of two, for the search */
#define HIGHSPEED_ACKED_MAX (1u << 25)
#define HIGHSPEED_Q16 65536u
#define HIGHSPEED_LOG_BITS 16
#define HIGHSPEED_LOG_LOW 343928u /* log2(38) in 1/65536 */
#define HIGHSPEED_LOG_SPAN 726984u /* log2(83000 / 38) in 1/65536 */
#define HIGHSPEED_HALF_Q16 (HIGHSPEED_Q16 / 2)
#define HIGHSPEED_B_HIGH_Q16 6554u /* 0.1 */
#define HIGHSPEED_C_LOW_Q16 63811u /* 37/38 */

/* packets: where a(w) becomes row + 1 (appendix B, from its formulas); for a row
 * that does not exist, a window that no flow reaches */
LAW u32 highspeed_begins(u32 row)
{
	static const u32 begins[HIGHSPEED_TABLE] = {
		38,    118,   221,   347,   495,   663,	  851,	 1058,	1284,  1529,  1793,
		2076,  2378,  2699,  3039,  3399,  3778,  4177,	 4596,	5036,  5497,  5979,
		6483,  7009,  7558,  8130,  8726,  9346,  9991,	 10661, 11358, 12082, 12834,
		13614, 14424, 15265, 16137, 17042, 17981, 18955, 19965, 21013, 22101, 23230,
		24402, 25618, 26881, 28193, 29557, 30975, 32450, 33986, 35586, 37253, 38992,
		40808, 42707, 44694, 46776, 48961, 51258, 53677, 56230, 58932, 61799, 64851,
		68113, 71617, 75401, 79517, 84035, 89053, 94717,
	};

	return row < HIGHSPEED_ROWS ? begins[row] : ~0u;
}

/* Is this window in this row? Any number is allowed as the row. */
LAW bool highspeed_in_row(u32 row, u32 w)
{
	return row < HIGHSPEED_ROWS && w < highspeed_begins(row + 1) &&
	       (!row || w >= highspeed_begins(row));
}

/* The row of a window: the last one that begins there or below, else the first.
 * Bit by bit, so that even an old verifier sees that each index is in the table. */
LAW u32 highspeed_row(u32 w)
{
	u32 row = 0;

	w = law_min(w, HIGHSPEED_TOP);
	for (u32 bit = HIGHSPEED_TABLE / 2; bit; bit >>= 1)
		if (w >= highspeed_begins(row + bit))
			row += bit;
	return row;
}

/* a: packets per RTT in this row */
LAW u32 highspeed_increase(u32 row)
{
	return row + 1;
}

/* packets: the credit of @acked packets, where a window of credit adds one packet to the window */
LAW u32 highspeed_credit(u32 acked, u32 row)
{
	return law_min(acked, HIGHSPEED_ACKED_MAX) * highspeed_increase(row);
}

/* log2(v) in 1/65536, v >= 1, rounded down: the mantissa is squared bit by bit. */
LAW u32 highspeed_log2(u32 v)
{
	u32 log = 31;
	u64 mantissa;

	for (u32 shift = 16; shift; shift >>= 1) {
		if (!(v >> (32 - shift))) {
			v <<= shift;
			log -= shift;
		}
	}
	mantissa = v;
	for (u32 i = 0; i < HIGHSPEED_LOG_BITS; i++) {
		mantissa = mantissa * mantissa >> 31;
		log = log << 1 | (mantissa >> 32);
		mantissa >>= mantissa >> 32;
	}
	return log;
}

/* L in 1/65536, 0 (up to HIGHSPEED_LOW) ... 1.025 */
LAW u32 highspeed_level(u32 w)
{
	u32 log = highspeed_log2(law_min(w, HIGHSPEED_TOP));
	u64 above = log < HIGHSPEED_LOG_LOW ? 0 : log - HIGHSPEED_LOG_LOW;

	return above * HIGHSPEED_Q16 / HIGHSPEED_LOG_SPAN;
}

/* b in 1/65536 */
LAW u32 highspeed_decrease(u32 w)
{
	return HIGHSPEED_HALF_Q16 - highspeed_level(w) * 2 / 5;
}

/* c in 1/65536 */
LAW u32 highspeed_second(u32 w)
{
	u64 fall = HIGHSPEED_C_LOW_Q16 - HIGHSPEED_B_HIGH_Q16;
	u32 level = highspeed_level(w);

	if (level >= HIGHSPEED_Q16)
		return highspeed_decrease(w);
	return HIGHSPEED_C_LOW_Q16 - (u32)(fall * level / HIGHSPEED_Q16);
}

/* packets: w without this part of it (1/65536, below 1) */
LAW u32 highspeed_left(u32 w, u32 part)
{
	return (u64)w * (HIGHSPEED_Q16 - part) / HIGHSPEED_Q16;
}

/* packets: what a reducing verdict leaves of @w, at least 1. Up to HIGHSPEED_LOW L is 0, and b
 * and c leave what TCP-LP leaves: half, and one packet. first_half, second_one: reduce any window
 * as TCP-LP does. */
LAW u32 highspeed_reduced(enum inference_verdict verdict, u32 w, bool first_half, bool second_one)
{
	u32 part;

	if (verdict != INFERENCE_TO_ONE)
		part = first_half ? HIGHSPEED_HALF_Q16 : highspeed_decrease(w);
	else if (second_one)
		return 1;
	else
		part = highspeed_second(w);
	return law_max(highspeed_left(w, part), 1);
}

/* packets: what a loss leaves of @w, at least 2: reno's half (RFC 5681, eq. 4) up to
 * HIGHSPEED_LOW, where b is 1/2 */
LAW u32 highspeed_loss(u32 w)
{
	return law_max(highspeed_left(w, highspeed_decrease(w)), 2);
}

#endif
