/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sending less than a packet per RTT (TCP-LP paper, III-B.4).
 *
 * The paper sends 64-byte packets below 5 packets. A controller cannot change the segment
 * size, so the byte rate is lowered by time: a window of w packets is sent in
 * k = min(MSS / 64, spread) RTT instead of one. (With an MSS of 1448 and the default spread of
 * 8 that is 2.8 times the paper's rate; 22 would be the same.) Packets leave in pairs, because the second
 * one makes the receiver acknowledge at once. The ACK of a single packet is delayed by up to
 * 40 ms, which would be taken for congestion:
 *
 *	gap between two pairs = 2 k / w base RTT, at least 2 RTT and at most 2 s
 *
 * The gap is a whole number of RTT, rounded down: the rate is up to 7 % above the equation's by
 * default (w = 3), and 50 % in the worst case (2.9 RTT). The bounds limit the reaction time. As
 * TCP's window grows by a packet per RTT, a pair that met no queue adds a packet for each
 * RTT of the gap.
 */
#ifndef CCBPF_LAW_SMALL_WINDOW_H
#define CCBPF_LAW_SMALL_WINDOW_H

#include "law/fixed.h"

#define SMALL_SEGMENT_BYTES 64 /* III-B.4 */
#define SMALL_PAIR 2 /* packets */
#define SMALL_GAP_MAX_US 2000000

/* RTTs between two pairs: w in packets >= 1, mss in bytes, spread >= 1 RTT */
LAW u32 small_gap_rtts(u32 w, u32 mss, u32 spread)
{
	u32 k = law_clamp(mss / SMALL_SEGMENT_BYTES, 1, spread);

	return law_max(SMALL_PAIR * k / law_max(w, 1), 2);
}

/* us between two pairs, at least 1 */
LAW u32 small_gap_us(u32 gap_rtts, u32 rtt_us)
{
	u64 gap_us = (u64)rtt_us * gap_rtts;

	return gap_us > SMALL_GAP_MAX_US ? SMALL_GAP_MAX_US : law_max(gap_us, 1);
}

/* bytes/s that make the kernel wait gap_us (>= 1) after a pair; at least 1 */
LAW u64 small_rate(u32 mss, u32 gap_us)
{
	return ((u64)SMALL_PAIR * law_max(mss, 1) * 1000000 + gap_us - 1) / gap_us;
}

#endif
