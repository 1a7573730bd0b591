/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The largest queueing delay of the buffer (q_max), and the threshold of eq. 2 computed from it
 * (papers: tcp-lp III-A).
 *
 * q_max is the queueing delay when the buffer is full.
 *
 *  1. It never ages: the paper's d_max is "throughout the connection's lifetime"
 *     (III-A.1). A flow that is alone cuts at delta q_max and never fills the buffer
 *     again; a q_max that was learned anew would be that of the flow's own cuts,
 *     smaller each time. It is forgotten together with the path, by delay_rebase().
 *  2. Only a delay that must come from a queue raises it: a sample less the time for which the
 *     path stood still while the packet was on its way (law/silence.h). A link that
 *     stands still for 200 ms delays all packets by that time, also on a buffer of
 *     25 ms; in a queue, packets of others leave while a packet waits, and their ACKs
 *     arrive.
 *
 * The threshold of eq. 2:
 *
 *	delta q_max	     once losses have shown that the buffer was full, or once a
 *			     queue was seen that is half as much again as the next line
 *	clamp(base / 4, ...) until then: 4 ms ... 20 ms
 *	at least	     a floor (at most half of q_max, where q_max is known), and
 *			     the path's noise (law/noise.h; at most a quarter of q_max)
 */
#ifndef CCBPF_LAW_DELAY_BUFFER_H
#define CCBPF_LAW_DELAY_BUFFER_H

#include "law/delay_state.h"

#define DELAY_FULL 3
#define DELAY_BACK_US 1000 /* plus 1/8 of the fall: a rest of the rise up to this is none */
#define DELAY_FAR_HALVES 3 /* 3/2 of the threshold is far above it */
#define DELAY_PROVISIONAL_SHIFT 2 /* the threshold of an unknown buffer: base / 4 */
#define DELAY_PROVISIONAL_MIN_US 4000
#define DELAY_PROVISIONAL_MAX_US 20000

/* us: the threshold while the buffer is not known */
LAW u32 delay_provisional_us(const struct delay *d)
{
	return law_clamp(delay_base_us(d) >> DELAY_PROVISIONAL_SHIFT, DELAY_PROVISIONAL_MIN_US,
			 DELAY_PROVISIONAL_MAX_US);
}

/* Is the buffer known? By losses, or by a queue far above what this flow would have caused
 * with the threshold of an unknown buffer: the buffer holds at least that. */
LAW bool delay_known(const struct delay *d)
{
	if (law_unlikely(d->stale))
		return false;
	return law_likely(d->overflowed) ||
	       d->most_us * 2 >= delay_provisional_us(d) * DELAY_FAR_HALVES;
}

/* us: the threshold is at least this. Where the buffer is known, the floor is at most half of
 * q_max, or a small buffer would never indicate, and the noise at most a quarter, because
 * the queue of a small buffer looks like a part of the noise. */
LAW u32 delay_floor(const struct delay *d, const struct delay_params *p)
{
	if (law_unlikely(!delay_known(d)))
		return law_max(p->floor_us, p->noise_us);
	return law_max(law_min(p->floor_us, d->most_us / 2), law_min(p->noise_us, d->most_us / 4));
}

/* us: eq. 2's right side before the floor, rounded down */
LAW u32 delay_part(const struct delay *d, const struct delay_params *p)
{
	return delay_known(d) ? (u64)d->most_us * p->delta / 1000 : delay_provisional_us(d);
}

/* us: eq. 2's right side */
LAW u32 delay_threshold(const struct delay *d, const struct delay_params *p)
{
	return law_max(law_forget(delay_part(d, p)), law_forget(delay_floor(d, p)));
}

/* The base moved, and q_max moves with it: a flow that began in a queue of others knew only a
 * part of that queue. Two exceptions. If the path is as short again as before delay_rebase(), its
 * buffer is the same as then. If no queue has been seen above the base so far, q_max stays
 * unknown: the ACK of a first packet is often delayed by 40 to 200 ms, and no buffer would ever
 * show that much again. */
LAW void delay_most_moved(struct delay *d, s32 by_us)
{
	u32 back_us = by_us > 0 ? law_min(by_us, d->rise_us) : 0;
	s32 most_us = d->most_us;

	d->rise_us -= back_us;
	if (d->rise_us <= DELAY_BACK_US + back_us / 8)
		d->stale = 0;
	if (most_us)
		delay_move_one(&most_us, by_us - (s32)back_us);
	d->most_us = most_us;
	d->overflowed &= !!most_us;
}

/* us: what part of queue_us must be a queue, where the path stood still for stood_us. A time
 * below half of queue_us may as well be a burst of others that came in between, which is a
 * queue. */
LAW u32 delay_certain(u32 queue_us, u32 stood_us)
{
	if (law_likely(stood_us <= queue_us / 2))
		return queue_us;
	return queue_us > stood_us ? queue_us - stood_us : 0;
}

/* A loss in a queue of queue_us. If nearly all of the largest queue ever seen was there, the
 * loss shows how large the buffer is: in the first slow start, and above the threshold. Below
 * it a loss may be chance, but not three in a row in the largest queue of all. */
LAW void delay_lost(struct delay *d, u32 queue_us, bool slow_start, const struct delay_params *p)
{
	u32 most_us = d->stale ? 0 : d->most_us;

	if (!queue_us || queue_us < most_us - most_us / 4) {
		d->full = 0;
		return;
	}
	if (queue_us < most_us - most_us / 16)
		d->full = 0;
	else if (d->full < DELAY_FULL)
		d->full++;
	if (slow_start || d->full == DELAY_FULL || queue_us > delay_threshold(d, p)) {
		d->most_us = law_max(most_us, queue_us);
		d->stale = 0;
		d->overflowed = 1;
	}
}

#endif
