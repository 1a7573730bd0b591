/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Is a delay that stands still a queue, or did the path become longer?
 *
 * A flow that sends almost nothing does not cause the delay that it measures. A queue that TCP
 * fills and drains changes all the time. So a delay that stays above the threshold and changes
 * by less than a millisecond from RTT to RTT is a new base delay (another route):
 *
 *	flat	 n samples in a row, each within 1 ms of the first of them, or within
 *		 the noise of the path where that is more, and within the time of twelve
 *		 packets. By default pairs are 4 RTT apart or more, so reno's window grows
 *		 by 20 and more from the first of six to the last: on a gigabit .24 ms.
 *		 (law/le.h waits longer instead)
 *	full	 the queueing delay is that of a full buffer, give or take an eighth: a
 *		 buffer that is kept full is flat as well, but it loses packets, and a
 *		 loss starts the count anew; so then it takes four times as many samples
 *
 * A flow that has a window causes a part of the delay itself, and that part grows with the
 * window, by a packet each round. So if the smallest delay of a round is constant for 16
 * rounds, the flow does not cause it either:
 *
 *	flat	 the smallest delays of these rounds differ by at most 1 ms,
 *		 the time of a packet and a half, or a quarter of the noise: the
 *		 smallest of a round's samples is that much steadier than one of them.
 *		 And by at most the time of three packets: in 16 rounds the slowest
 *		 growth, a quarter packet in each, adds four. On fast paths with noise
 *		 that is never so
 *	low	 a delay of up to 1 ms, or up to the noise, is not counted
 *
 * Without this the old minimum counts until it is forgotten, up to three minutes. The
 * plateau of cubic is shorter: it stays within 1 ms for 3 s at 10 Mbit/s, for 5 s at 100, and
 * for 12 s at 1 Gbit/s and 100 ms. (There six pairs take 10 s, which is no longer.) A standing
 * queue that neither grows nor drains, caused by a sender that is limited by its receive window,
 * is taken for a longer path before the minimum is forgotten; no end host can distinguish them.
 */
#ifndef CCBPF_LAW_FLAT_H
#define CCBPF_LAW_FLAT_H

#include "law/fixed.h"

#define FLAT_TOLERANCE_US 1000
#define FLAT_COUNT_MAX 255
#define FLAT_ROUNDS 16
#define FLAT_FULL 4 /* times as many */
#define FLAT_OTHERS 12 /* packets: less than reno's growth in the gaps of six pairs */
#define FLAT_OWN 3 /* packets: less than a flow's own growth in FLAT_ROUNDS */

/* The number of flat samples in a row after the first one, including this one; 0: this sample is
 * the first of a new series. us: this RTT, the first sample's RTT (0: none), and how far apart
 * the two may be. */
LAW u32 flat_count(u32 count, u32 rtt_us, u32 first_us, u32 noise_us)
{
	u32 apart_us = rtt_us > first_us ? rtt_us - first_us : first_us - rtt_us;

	if (!first_us || apart_us > law_max(FLAT_TOLERANCE_US, noise_us))
		return 0;
	return law_min(count + 1, FLAT_COUNT_MAX);
}

/* flat_count() for pairs of packets. us: the same, and the time of a packet (0: not known). */
LAW u32 flat_pairs(u32 count, u32 rtt_us, u32 first_us, u32 noise_us, u32 packet_us)
{
	u32 apart_us = law_max(rtt_us, first_us) - law_min(rtt_us, first_us);

	if (packet_us && apart_us > FLAT_OTHERS * packet_us)
		return 0;
	return flat_count(count, rtt_us, first_us, noise_us);
}

/* The number of flat samples that mean a longer path: `pairs` (1 ... 255), or four times as many
 * where the buffer may be full. us: the queueing delay, and that of a full buffer (0: not
 * known). */
LAW u32 flat_enough(u32 pairs, u32 queue_us, u32 full_us)
{
	u32 band_us = full_us / 8;

	if (!full_us || queue_us <= full_us - band_us || queue_us > full_us + band_us)
		return pairs;
	return law_min(pairs * FLAT_FULL, FLAT_COUNT_MAX);
}

/* flat_count() for rounds. us: the smallest delay of this round, that of the first round, the
 * noise, and the time of a packet (0: not known, or below 1). */
LAW u32 flat_rounds(u32 count, u32 low_us, u32 first_us, u32 noise_us, u32 packet_us)
{
	u32 apart_us = law_max(low_us, first_us) - law_min(low_us, first_us);

	if (low_us <= law_max(FLAT_TOLERANCE_US, noise_us) || apart_us > FLAT_OWN * packet_us)
		return 0;
	return flat_count(count, low_us, first_us,
			  law_max(noise_us / 4, packet_us + packet_us / 2));
}

#endif
