/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Is it a queue, or did the path become longer?
 *
 * A flow that sends almost nothing does not make the delay that it sees. If that
 * stays above the threshold but stands still, RTT after RTT to the millisecond,
 * it is no queue that TCP fills and drains but a new base delay (another route):
 *
 *	flat	 n samples in a row, each within 1 ms of the first of them
 *	full	 the queueing delay is above 7/8 of the largest: a buffer that is kept
 *		 full is flat as well, so then it says nothing
 *
 * Without this the old minimum counts until it is forgotten, up to three minutes.
 * The plateau of cubic is not that long: within 1 ms it is 3 s at 10 Mbit/s, 5 s at
 * 100, and 12 s at 1 Gbit/s and 100 ms, where six pairs take 10 s: there the two
 * come close. A standing queue that neither grows nor drains (of a sender that its receive
 * window limits) is taken for the path sooner than by forgetting; no end host can
 * tell the two apart.
 */
#ifndef CCBPF_LAW_FLAT_H
#define CCBPF_LAW_FLAT_H

#include "law/fixed.h"

#define FLAT_TOLERANCE_US 1000
#define FLAT_COUNT_MAX 255

/* The number of flat samples in a row after the first one, with this one; 0: this
 * is a first one. us: this RTT and the first one's (0: none); the queueing delay
 * and the largest. */
LAW u32 flat_count(u32 count, u32 rtt_us, u32 first_us, u32 queue_us,
		   u32 queue_max_us)
{
	u32 apart_us = rtt_us > first_us ? rtt_us - first_us :
					   first_us - rtt_us;

	if (!first_us || apart_us > FLAT_TOLERANCE_US ||
	    queue_us > queue_max_us - queue_max_us / 8)
		return 0;
	return law_min(count + 1, FLAT_COUNT_MAX);
}

#endif
