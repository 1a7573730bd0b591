/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * When the packets of a chirp leave (NF-TCP paper, 3.2, eq. 3, 4, 6).
 *
 * A chirp has n steps, 0 ... n - 1, and n - 1 gaps between them. Gap i, from step i
 * to step i + 1, stands for the rate
 *
 *	r_i = min SF^i			i = 0 ... n - 2		(3, where i is from 1)
 *	max = r_(n-2) = min SF^(n-2)				(4)
 *	min = avg sum(SF^-i, i = 0 ... n - 2) / (n - 1)		(6, the same sum)
 *
 * where avg is what the whole chirp sends on average. Its rates rise by SF = 1.2 from
 * one gap to the next: 15 steps span a factor of 10.7.
 *
 * A step is a burst of 1, 2, 4 or 8 packets back to back, the fewest with which the
 * shortest gap is one that the timer can keep (28 us). So the limit of what can be
 * probed is 8 packets per 28 us: 3.4 Gbit/s of 1500 bytes; chirp_ceiling_kbps(). Only
 * the first packet of a burst is a sample (of what the steps before it left in the
 * queue): those behind it wait for their own burst, wherever the sender's line is
 * faster than the path.
 *
 * bytes is always what a whole step occupies on the line: burst packets with headers.
 *
 * Ranges: rates u32 in kbit/s, up to 4.29 Tbit/s, and saturating there; spread in
 * permille, clamped to 1010 ... 2000; n clamped to 2 ... 15; bytes up to 2^24 (16 MB).
 * Error of a rate: under 1 kbit/s plus 4 in a million for each step; of a departure: under
 * 15 ns plus the effect of the rates' errors.
 */
#ifndef CCBPF_LAW_CHIRP_H
#define CCBPF_LAW_CHIRP_H

#include "law/fixed.h"

#define CHIRP_MOST 15 /* steps, the paper's N */
#define CHIRP_LEAST 2 /* steps: one gap */
#define CHIRP_SPREAD_MIN 1010 /* permille */
#define CHIRP_SPREAD_MAX 2000
#define CHIRP_BURST_MOST 8 /* packets */

#define CHIRP_RATE_SHIFT 8 /* rates are computed in 1/256 kbit/s */
#define CHIRP_RATE_MAX ((u64)~0u << CHIRP_RATE_SHIFT)
#define CHIRP_SHARE_SHIFT 20 /* of SF^-i: 14 of them and a u32 fit u64 */
#define CHIRP_BYTES_MAX (1u << 24)
#define CHIRP_NS_BITS 8000000ull /* bits of a byte, in kbit/s ns */

INLINE_LAW u32 chirp_spread(u32 spread_permille)
{
	return law_clamp(spread_permille, CHIRP_SPREAD_MIN, CHIRP_SPREAD_MAX);
}

INLINE_LAW u32 chirp_steps(u32 n)
{
	return law_clamp(n, CHIRP_LEAST, CHIRP_MOST);
}

/* One gap on, in 1/256 kbit/s: at most 2^40 * 2000 before the division. */
LAW u64 chirp_faster(u64 rate_q8, u32 spread_permille)
{
	rate_q8 = rate_q8 * spread_permille / 1000;
	return law_forget(rate_q8 > CHIRP_RATE_MAX ? CHIRP_RATE_MAX : rate_q8);
}

/* kbit/s of gap i (eq. 3); for a larger i that of the last possible gap */
LAW u32 chirp_rate_kbps(u32 min_kbps, u32 spread_permille, u32 i)
{
	u64 rate_q8 = (u64)min_kbps << CHIRP_RATE_SHIFT;

	spread_permille = law_forget(chirp_spread(spread_permille));
	i = law_forget(i);
	for (u32 gap = 0; gap < CHIRP_MOST - 2 && gap < i; gap++)
		rate_q8 = chirp_faster(rate_q8, spread_permille);
	return rate_q8 >> CHIRP_RATE_SHIFT;
}

/* kbit/s of the last gap of n steps (eq. 4) */
INLINE_LAW u32 chirp_max_kbps(u32 min_kbps, u32 spread_permille, u32 n)
{
	return chirp_rate_kbps(min_kbps, spread_permille, chirp_steps(n) - 2);
}

/* ns that a step of so many bytes lasts at the rate, at least 1 */
LAW u64 chirp_gap_ns(u32 kbps, u32 bytes)
{
	u64 gap_ns = law_min(bytes, CHIRP_BYTES_MAX) * CHIRP_NS_BITS / law_max(kbps, 1);

	return law_forget(gap_ns ? gap_ns : 1);
}

/* ns from the departure of step 0 to that of step i */
LAW u64 chirp_depart_ns(u32 min_kbps, u32 spread_permille, u32 i, u32 bytes)
{
	u64 rate_q8 = (u64)min_kbps << CHIRP_RATE_SHIFT, at_ns = 0;

	spread_permille = law_forget(chirp_spread(spread_permille));
	bytes = law_forget(law_min(bytes, CHIRP_BYTES_MAX));
	i = law_forget(i);
	for (u32 gap = 0; gap < CHIRP_MOST - 1 && gap < i; gap++) {
		at_ns += chirp_gap_ns(rate_q8 >> CHIRP_RATE_SHIFT, bytes);
		rate_q8 = chirp_faster(rate_q8, spread_permille);
	}
	return at_ns;
}

/* kbit/s of the first gap with which n steps have this average rate (eq. 6); at least the floor */
LAW u32 chirp_min_kbps(u32 avg_kbps, u32 spread_permille, u32 n, u32 floor_kbps)
{
	u64 share = 1ull << CHIRP_SHARE_SHIFT, sum = 0;
	u32 gaps = chirp_steps(n) - 1, first_kbps;

	spread_permille = chirp_spread(spread_permille);
	for (u32 gap = 0; gap < CHIRP_MOST - 1 && gap < gaps; gap++) {
		sum += share;
		share = share * 1000 / spread_permille;
	}
	first_kbps = (avg_kbps * sum / gaps) >> CHIRP_SHARE_SHIFT; /* no share is above 1 */
	return law_max(first_kbps, floor_kbps);
}

/* kbit/s: the fastest rate that bursts of @burst packets of @packet_bytes can probe, if no gap
 * may be shorter than @floor_ns */
LAW u32 chirp_reach_kbps(u32 burst, u32 packet_bytes, u32 floor_ns)
{
	u64 kbps = (u64)law_min(burst, CHIRP_BURST_MOST) * law_min(packet_bytes, CHIRP_BYTES_MAX) *
		   CHIRP_NS_BITS / law_max(floor_ns, 1);

	return kbps > ~0u ? ~0u : kbps;
}

/* kbit/s: nothing faster can be probed */
LAW u32 chirp_ceiling_kbps(u32 packet_bytes, u32 floor_ns)
{
	return chirp_reach_kbps(CHIRP_BURST_MOST, packet_bytes, floor_ns);
}

/* packets per step: the fewest that reach max_kbps, else the most there are */
LAW u32 chirp_burst(u32 max_kbps, u32 packet_bytes, u32 floor_ns)
{
	u32 burst = 1;

	while (burst < CHIRP_BURST_MOST &&
	       chirp_reach_kbps(burst, packet_bytes, floor_ns) < max_kbps)
		burst *= 2;
	return burst;
}

#endif
