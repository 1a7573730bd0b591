/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The noise of a path for `le`: how far the queueing delay falls within a round trip.
 *
 *	fall	 the largest delay of the round so far, less the delay now: the largest in the round
 *	noise	 the mean of 5/4 fall: of the first 16 rounds; then as law/noise.h weights a spread
 *
 * Jitter falls as fast as it rises. A queue that others begin to fill only rises during a round
 * trip, and law/noise.h, which takes largest less smallest, counts that as noise. So here a start
 * may learn quickly, as each delay of its first rounds decides whether it goes on: ten starts of
 * `le` with a cubic left it .985 of 30 s, and .938 where they learned spreads as quickly. 5/4, as
 * packets that stay in order behind a late one fall by less than they rose (20 Mbit/s, 30 ms, 4 ms
 * of jitter: .95 of the link, with the fall itself .71). With 7/4 some of ten `le` take the noise
 * that the ten cause for the path's (Jain .53 in the worst of 32 draws, now .99).
 *
 * It is kept in law/noise.h's struct, as a connection has no room for more: there `low` is the
 * largest fall of this round, and `samples` also counts the rounds of the plain mean.
 *
 * Ranges: as law/noise.h.
 */
#ifndef CCBPF_LAW_FALLS_H
#define CCBPF_LAW_FALLS_H

#include "law/noise.h"

#define FALLS_QUARTERS 5 /* quarters of a fall */
#define FALLS_FIRST 16 /* rounds of the plain mean */
#define FALLS_ROUND 8 /* in `samples`: a round; below it the samples of this one */

LAW u32 falls_samples(const struct noise *n)
{
	return n->samples % FALLS_ROUND;
}

/* rounds that were learned from, up to FALLS_FIRST */
LAW u32 falls_rounds(const struct noise *n)
{
	return n->samples / FALLS_ROUND;
}

/* A new round begins. */
LAW void falls_begin(struct noise *n)
{
	n->low = 0;
	n->high = 0;
	n->samples -= falls_samples(n);
}

LAW void falls_init(struct noise *n, u32 snd_nxt)
{
	noise_init(n, snd_nxt);
	falls_begin(n);
}

/* A queueing delay (us) of this round. */
LAW void falls_put(struct noise *n, u32 delay_us)
{
	u16 delay = law_min(delay_us >> NOISE_SPREAD_SHIFT, NOISE_MOST);

	n->high = law_max(n->high, delay);
	n->low = law_max(n->low, n->high - delay);
	if (falls_samples(n) < NOISE_SAMPLES)
		n->samples++;
}

/* A round has ended. One with too few samples is not used. */
LAW void falls_learn(struct noise *n)
{
	u32 noise = (u32)n->low * FALLS_QUARTERS << (NOISE_SPREAD_SHIFT - NOISE_SHIFT) >> 2;
	u32 weight = noise > n->noise ? NOISE_RISE : NOISE_FALL;

	if (falls_samples(n) >= NOISE_SAMPLES) {
		if (falls_rounds(n) < FALLS_FIRST) {
			n->samples += FALLS_ROUND;
			weight = falls_rounds(n);
		}
		n->noise = law_ewma(n->noise, law_min(noise, NOISE_MOST), weight);
	}
	falls_begin(n);
}

#endif
