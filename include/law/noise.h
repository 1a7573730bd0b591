/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The noise of a path: how far its delays differ within a round trip. A delay within the
 * noise is no queue.
 *
 *	spread	 the largest queueing delay of a round less its smallest
 *	noise	 noise += (spread - noise) / 16 where it rises, / 8 where it falls
 *
 * A round ends with the first ACK for a packet that was sent after the round's beginning. A
 * round of fewer than 4 samples is not used: over several round trips others fill and drain
 * the queue.
 *
 * Neither the mean nor the smallest of the spreads is used: foreground traffic that begins makes
 * the queue rise within a round, sometimes by the whole buffer, and this is no noise; jitter is
 * in every round. With these two weights the noise settles where a third of the spreads
 * are below it (uniform jitter of +- 4 ms, 20 samples: at 6 ms, where the mean delay is 4).
 *
 * Ranges: delays up to 2^23 us; spreads are kept in 16 us up to 1.05 s, noise in 4 us up
 * to 262 ms, saturating. Sequence numbers are u32 that wrap.
 */
#ifndef CCBPF_LAW_NOISE_H
#define CCBPF_LAW_NOISE_H

#include "law/fixed.h"

#define NOISE_SPREAD_SHIFT 4 /* 16 us */
#define NOISE_SHIFT 2 /* 4 us */
#define NOISE_MOST 0xffff
#define NOISE_SAMPLES 4 /* of a spread, at the least */
#define NOISE_RISE 16
#define NOISE_FALL 8
#define NOISE_UNKNOWN (~0u)

struct noise {
	u32 end; /* sequence number: this round ends */
	u16 noise; /* 4 us */
	u16 low, high; /* 16 us: smallest and largest delay of this round */
	u8 samples; /* of the two, up to NOISE_SAMPLES */
	u8 flat; /* samples in a row (rounds, or pairs) whose delay stands still (law/flat.h) */
};

/* A new spread begins. */
LAW void noise_begin(struct noise *n)
{
	n->low = NOISE_MOST;
	n->high = 0;
	n->samples = 0;
}

LAW void noise_init(struct noise *n, u32 snd_nxt)
{
	n->end = snd_nxt;
	n->noise = 0;
	n->flat = 0;
	noise_begin(n);
}

/* us: the part of a delay that is noise */
LAW u32 noise_us(const struct noise *n)
{
	return (u32)n->noise << NOISE_SHIFT;
}

/* Ends the round if this ACK covers a packet that was sent after the round began; true: it just
 * did. To be called on every ACK that may be measured, so that the comparison never spans half of
 * the sequence space. */
LAW bool noise_turn(struct noise *n, u32 snd_una, u32 snd_nxt)
{
	if (law_likely(!law_after(snd_una, n->end)))
		return false;
	n->end = snd_nxt;
	return true;
}

/* A round has ended. us: its smallest delay; NOISE_UNKNOWN: it had too few samples. */
LAW u32 noise_learn(struct noise *n)
{
	u32 low_us = (u32)n->low << NOISE_SPREAD_SHIFT;
	u32 spread = (u32)(n->high - n->low) << (NOISE_SPREAD_SHIFT - NOISE_SHIFT);

	if (n->samples < NOISE_SAMPLES) {
		noise_begin(n);
		return NOISE_UNKNOWN;
	}
	spread = law_min(spread, NOISE_MOST);
	n->noise = law_ewma(n->noise, spread, spread > n->noise ? NOISE_RISE : NOISE_FALL);
	noise_begin(n);
	return low_us;
}

/* A queueing delay (us) of this round. */
LAW void noise_put(struct noise *n, u32 delay_us)
{
	u16 delay = law_min(delay_us >> NOISE_SPREAD_SHIFT, NOISE_MOST);

	if (delay < n->low)
		n->low = delay;
	if (delay > n->high)
		n->high = delay;
	if (n->samples < NOISE_SAMPLES)
		n->samples++;
}

#endif
