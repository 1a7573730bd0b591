/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The delay estimator of TCP-LP: how long is the queue ahead of this flow's packets,
 * and is it an early congestion indication? (papers: tcp-lp III-A, VI-A)
 *
 *	sd  = (1 - 1/smoothing) sd + d / smoothing                     (eq. 1)
 *	sd  > d_min + (d_max - d_min) delta   is an indication          (eq. 2)
 *
 * All delays are kept relative to d_min, as queueing delay q = d - d_min, so that
 * eq. 2 reads  sq > q_max delta.  A change of d_min moves sq and q_max by the same
 * amount, as it would with absolute values.
 *
 *	law/delay_state.h	the state, and the ranges of its values
 *	law/delay_clock.h	one-way delay and the peer's clock
 *	law/delay_buffer.h	q_max, and the right side of eq. 2
 *	here			the sample q, eq. 1, the left side of eq. 2
 *
 * The sample. The RTT is exact to the microsecond but includes the reverse path. The
 * one-way delay excludes the reverse path but is read in ticks of the peer's clock,
 * 1 ms on most paths. The queue ahead of us is part of both, so
 *
 *	q = min(rtt - rtt_min, owd - owd_min + one tick)
 *
 * The RTT gives the size of the queue; the one-way delay removes what lies in the
 * reverse path. A clock that runs fast (drift) cannot create a queue. Since the peer's
 * clock is read in whole ticks, q is never below the true queue, and less than two ticks
 * above it (plus the drift since owd_min, which is up to delay_memory old).
 *
 * The average. At the beginning, and after delay_restart(), sq is the smallest of the
 * first four samples, so that one late ACK of a busy host is not the average. An
 * indication may require a minimum number of samples.
 */
#ifndef CCBPF_LAW_DELAY_H
#define CCBPF_LAW_DELAY_H

#include "law/delay_buffer.h"
#include "law/delay_clock.h"

#define DELAY_ANCHOR_HALF (1u << 15) /* 2^31 us: the range of s32 in us */

/* Forget the smoothed delay, keep the extremes: after idle, and at the first
 * packet that was sent after a reaction. */
LAW void delay_restart(struct delay *d)
{
	d->smoothed_q8 = DELAY_NOT_SMOOTHED;
	d->samples = 0;
}

/* eq. 2 */
LAW bool delay_indicates(const struct delay *d, const struct delay_params *p)
{
	if (d->smoothed_q8 == DELAY_NOT_SMOOTHED || d->samples < p->least)
		return false;
	return d->smoothed_q8 > delay_threshold(d, p) * DELAY_SMOOTHED_UNIT;
}

/* The base fell (by_us > 0) or rose: what was measured against it moves with it. */
LAW void delay_base_moved(struct delay *d, s32 by_us)
{
	s64 smoothed_q8 = d->smoothed_q8 + (s64)by_us * DELAY_SMOOTHED_UNIT;
	s32 anchor_us = d->anchor_queue_us;

	delay_move_one(&anchor_us, by_us);
	d->anchor_queue_us = anchor_us;
	if (d->smoothed_q8 == DELAY_NOT_SMOOTHED)
		return;
	d->smoothed_q8 = smoothed_q8 > 0 ? smoothed_q8 : 0;
}

/* Turn the halves of the memory when it is time. */
LAW void delay_age(struct delay *d, u64 now_us, u32 memory_s)
{
	u16 now = aged_clock(now_us), since = now - d->half;

	if (law_unlikely(!d->timed)) {
		d->timed = 1;
		d->half = now;
		return;
	}
	if (!aged_over(since, memory_s))
		return;
	if (since >= DELAY_ANCHOR_HALF) {
		d->anchored = 0;
		delay_set_tick(d, 0);
	}
	d->half = now;
	aged_turn(&d->rtt, AGED_NO_MIN);
	aged_turn(&d->owd, AGED_NO_MIN);
}

/* us: the RTT's queueing delay. Where the base moves, all that was measured
 * against it moves too. */
LAW u32 delay_rtt_queue(struct delay *d, u64 now_us, u32 rtt_us, u32 memory_s)
{
	s32 base_was = aged_min(&d->rtt), base;

	delay_age(d, now_us, memory_s);
	aged_put_min(&d->rtt, rtt_us);
	base = aged_min(&d->rtt);
	if (law_unlikely(base_was != base && base_was != AGED_NO_MIN)) {
		delay_base_moved(d, base_was - base);
		delay_most_moved(d, base_was - base);
	}
	return rtt_us - (u32)base;
}

/* eq. 1, from its beginning on. Before the first sample smoothed_q8 is above all
 * others: DELAY_NOT_SMOOTHED. */
LAW void delay_smooth(struct delay *d, u32 queue_q8, u32 smoothing)
{
	if (law_likely(d->samples == DELAY_FIRST)) {
		d->smoothed_q8 = law_ewma(d->smoothed_q8, queue_q8, smoothing);
		return;
	}
	d->samples++;
	d->smoothed_q8 = law_min(d->smoothed_q8, queue_q8);
}

/* What was taken for a queue is the path: its base delay rose to this RTT (us, 1
 * ... 2^23). Returns by how much. The one-way delay's base stays, as it is not known
 * which way became longer: until it is forgotten the RTT decides. The buffer of another path
 * is not known; that of the old path is known again if the base falls back. */
LAW u32 delay_rebase(struct delay *d, u32 rtt_us)
{
	s32 rise_us = (s32)law_min(rtt_us, DELAY_MAX_US) - aged_min(&d->rtt);

	if (rise_us <= 0)
		return 0;
	aged_reset(&d->rtt, aged_min(&d->rtt) + rise_us);
	delay_base_moved(d, -rise_us);
	d->rise_us += rise_us;
	d->stale = 1;
	d->full = 0;
	return rise_us;
}

/* us: @queue_us without the wait for the other packet of the same pair */
LAW u32 delay_of_others(u32 queue_us, u32 own_us)
{
	return queue_us > own_us ? queue_us - own_us : 0;
}

/*
 * One ACK that advanced snd_una in state Open or Disorder (elsewhere the newest packet that
 * arrived may be a retransmission: never feed them): its queueing delay in us. The rtt_us of
 * the ACK is not 0.
 */
LAW u32 delay_measure(struct delay *d, const struct delay_ack *a, const struct delay_params *p)
{
	u32 rtt_us = law_min(a->rtt_us, DELAY_MAX_US);
	u32 queue_us = delay_rtt_queue(d, a->now_us, rtt_us, p->memory_s);

	if (a->stamped) {
		delay_clock(d, a, queue_us);
		queue_us = delay_confirm(d, a, queue_us);
	}
	return law_forget(delay_of_others(queue_us, a->own_us));
}

/* us: the queue at a loss, the larger of two delays: that of the newest packet that has arrived
 * (@a, its ACK), and the last one before it (@before_us). A burst of other flows fills the queue
 * within a round trip, and a burst of ours has left it by then. The estimator learns nothing from
 * it here. */
LAW u32 delay_at_loss(const struct delay *d, const struct delay_ack *a, u32 before_us, u32 stood_us)
{
	u32 base_us = delay_base_us(d), queue_us = 0;
	u32 rtt_us = law_min(a->rtt_us, DELAY_MAX_US);

	if (base_us && rtt_us > base_us)
		queue_us = rtt_us - base_us;
	if (a->stamped && d->tick_ns && !delay_owd_far(delay_owd_ns(d, a)))
		queue_us = delay_bounded(d, delay_owd_ns(d, a), queue_us);
	return delay_certain(law_max(queue_us, before_us), stood_us);
}

/* That delay joins the average; the part of it that must be a queue may raise q_max. @stood_us:
 * for how long the path stood still while the packet was on its way. @late: this may be a delayed
 * ACK. It counts only where it is below the average, as the queue is at most that. */
LAW void delay_take(struct delay *d, u32 queue_us, u32 stood_us, bool late,
		    const struct delay_params *p)
{
	u32 queue_q8 = queue_us * DELAY_SMOOTHED_UNIT;

	if (law_unlikely(late) && (!d->samples || queue_q8 >= d->smoothed_q8))
		return;
	if (law_likely(!d->stale))
		d->most_us = law_max(d->most_us, delay_certain(queue_us, stood_us));
	delay_smooth(d, queue_q8, p->smoothing);
}

#endif
