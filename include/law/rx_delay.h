/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a receiver measures for its control law (law/rx_window.h, which is the specification): the
 * one-way delay of received data on the scale of the RTT,
 *
 *	d = RTT_min + owd - owd_min
 *
 * fed to law/delay.h in the place of an RTT, so that its memory holds for it; and what of it was
 * waited for others.
 */
#ifndef CCBPF_LAW_RX_DELAY_H
#define CCBPF_LAW_RX_DELAY_H

#include "law/flat.h"
#include "law/rx_state.h"

/* All delays that are remembered, and come, are @by_us more. */
LAW void rx_shift(struct rx *x, s32 by_us)
{
	struct aged *base = &x->delay.rtt;

	x->offset_us += by_us;
	if (base->now != AGED_NO_MIN)
		base->now += by_us;
	if (base->before != AGED_NO_MIN)
		base->before += by_us;
}

/* The delays begin anew: the sender's clock is another. */
LAW void rx_new_clock(struct rx *x, const struct rx_ack *a)
{
	delay_init(&x->delay);
	x->offset_us = x->rtt_min_us;
	x->queue_us = 0;
	x->own_us = 0;
	x->own_ts = a->tsval;
}

/* us: a delay below all others, or @base_us where it says nothing. A packet that overtook others came
 * by another way: a hole is before it. Where nothing else is in flight there is none, so a packet that
 * is far below must have another one behind it. After the clock began anew all delays are far below
 * what is known, and the second one is the first that counts. */
LAW s64 rx_shortest(struct rx *x, const struct rx_ack *a, s64 delay_us, s64 base_us)
{
	bool far = x->avoiding && base_us - delay_us > RX_FAR_US, again = x->lone;

	x->lone = far && !a->hole;
	return a->hole || (far && !again) ? base_us : delay_us;
}

/* us: RTT_min + owd - owd_min. A delay below all others by more than RTT_min moves the scale. */
LAW u32 rx_delay(struct rx *x, const struct rx_ack *a)
{
	s64 delay_us = rx_clock_owd_us(&x->clock, a->now_us, a->tsval) + x->offset_us;
	s64 base_us = delay_base_us(&x->delay);

	if (law_unlikely(delay_us < -RX_JUMP_US)) {
		rx_clock_anchor(&x->clock, a->now_us, a->tsval, 0);
		rx_new_clock(x, a);
		delay_us = x->offset_us;
	} else if (law_unlikely(delay_us < base_us)) {
		delay_us = rx_shortest(x, a, delay_us, base_us);
	} else {
		x->lone = 0;
	}
	if (law_unlikely(delay_us < 1)) {
		rx_shift(x, (s32)(1 - delay_us));
		delay_us = 1;
	}
	return law_forget(delay_us) < DELAY_MAX_US ? (u32)delay_us : DELAY_MAX_US;
}

/* us: the queue that this flow's packets would find if they were alone, by the times at which they
 * were sent, on a link that takes 7/8 of the time. So a burst waits for itself, and a queue that
 * stands is none. @came: packets. Returns what the newest one waited, but for one packet before it: the
 * shortest delays, too, are of pairs. */
LAW u32 rx_own_us(struct rx *x, const struct rx_ack *a, u32 came)
{
	u32 each_us = x->avoiding ? x->spacing.packet_us * RX_OWN / 8 : 0;
	s32 ticks = a->tsval - x->own_ts;
	u64 passed_us = (u64)(u32)ticks * x->clock.tick_ns / 1000;

	if (ticks < 0)
		return x->own_us; /* others overtook it: no pair came together */
	came = x->filled ? 1 : law_clamp(came, 1, RX_OWN_MOST);
	x->own_us = x->own_us > passed_us ? x->own_us - (u32)passed_us : 0;
	x->own_us = law_min(x->own_us + came * each_us, DELAY_MAX_US);
	x->own_ts = a->tsval;
	return x->own_us > 2 * each_us ? x->own_us - 2 * each_us : 0;
}

/* us: what of this queue is not the flow's own burst. The sender's clock is half a tick early in the
 * mean. */
LAW u32 rx_others_us(struct rx *x, const struct rx_ack *a, u32 came)
{
	u32 sure_us = rx_own_us(x, a, came) + x->clock.tick_ns / 2000;

	return x->queue_us > sure_us ? x->queue_us - sure_us : 0;
}

/* SMALL: a delay that stands still is a longer path (law/flat.h). */
LAW_APART int rx_notice_flat(struct rx *x, u32 now_us)
{
	u32 full_us = x->law.small_buffer ? le_us(x->law.most) : 0, rise_us;

	if (!rx_small(x) || x->muted || x->unseen || now_us - x->flat_at_us < LE_FLAT_US)
		return 0;
	x->flat_at_us = now_us;
	x->noise.flat =
		flat_count(x->noise.flat, x->queue_us, le_us(x->law.cut_q), noise_us(&x->noise));
	if (!x->noise.flat)
		x->law.cut_q = le_units(x->queue_us);
	if (x->noise.flat < flat_enough(RX_FLAT, x->queue_us, full_us))
		return 0;
	rise_us = delay_rebase(&x->delay, delay_base_us(&x->delay) + x->queue_us);
	x->rtt_min_us = law_min(x->rtt_min_us + rise_us, DELAY_MAX_US);
	x->noise.flat = 0;
	x->law.cut_q = 0;
	le_moved(&x->law);
	return 0;
}

/* --- a packet ------------------------------------------------------------------ */

/* The packet's delay, in x->queue_us. False: it has none. */
LAW bool rx_sample(struct rx *x, const struct rx_ack *a)
{
	struct delay_ack sample = { .now_us = a->long_us };
	struct delay_params p = { .delta = 1, .smoothing = 1, .memory_s = RX_MEMORY_S, .least = 1 };
	u32 before_us = x->queue_us;

	if (!a->fresh)
		return false;
	if (rx_clock_heard(&x->clock, a->now_us, a->tsval))
		rx_new_clock(x, a);
	if (!x->clock.tick_ns)
		return false;
	x->unseen = 0;
	sample.rtt_us = rx_delay(x, a);
	x->queue_us = law_forget(delay_measure(&x->delay, &sample, &p));
	if (silence_was(x->since_us, x->spacing.packet_us))
		silence_take(&x->silence, x->since_us, x->queue_us, before_us, rx_small(x));
	return true;
}

/* A packet of SMALL: the jitter of the path, by RFC 3550 (A.8). */
LAW void rx_single(struct rx *x)
{
	u32 last_us = x->single_us, now_us = x->queue_us;

	if (x->muted)
		return;
	x->single_us = now_us;
	if (last_us != RX_NO_SINGLE)
		x->jitter_us = law_ewma(x->jitter_us,
					law_max(now_us, last_us) - law_min(now_us, last_us),
					RX_JITTER_NEW);
}

/* A packet of a larger window. */
LAW void rx_flight(struct rx *x, u32 others_us)
{
	noise_put(&x->noise, others_us);
	x->single_us = RX_NO_SINGLE;
}

/* In SMALL each gap one packet is judged. */
LAW bool rx_due(struct rx *x)
{
	if (!rx_small(x))
		return true;
	if (x->muted || (x->law.growth != LE_FRESH && x->waited < le_gap(&x->law)))
		return false;
	x->waited = 0;
	return true;
}

/* packets: a block is a quarter of it. START's bursts come at twice the link's rate: there a block
 * is a round. */
LAW u32 rx_block_window(const struct rx *x, bool round)
{
	if (law_likely(x->avoiding))
		return x->packets;
	return round ? 0 : ~0u;
}

/* A packet's delay joins the block. @came: packets with this ACK. @round: a round has ended. True: so
 * has the block. */
LAW_APART bool rx_measure(struct rx *x, const struct rx_ack *a, u32 came, bool round)
{
	bool small = rx_small(x), spaced = !small && !x->filled && !a->hole;
	struct le_path path;
	struct le_ack ack;
	u32 others_us;

	if (!law_forget(rx_sample(x, a)))
		return false;
	spacing_heard(&x->spacing, a->now_us, x->packets >= LE_SPACED && spaced ? came : 0);
	others_us = law_forget(rx_others_us(x, a, came));
	if (small)
		rx_single(x);
	else
		rx_flight(x, others_us);
	if (!law_forget(rx_due(x)))
		return false;
	rx_path(x, &path);
	ack = (struct le_ack){ .queue_us = others_us, .acked = law_max(came, 2), .flying = !small };
	return law_forget(le_sample(&x->law, &ack, law_forget(rx_block_window(x, round)), &path));
}

/* --- a round ------------------------------------------------------------------- */

/* The base of the delays is the smallest RTT. */
LAW void rx_align(struct rx *x)
{
	u32 base_us = delay_base_us(&x->delay);

	if (base_us && base_us != x->rtt_min_us)
		rx_shift(x, (s32)(x->rtt_min_us - base_us));
}

/* A round's smallest delay is above what the RTT says of the queue: the clocks drift. */
LAW void rx_drift(struct rx *x, u32 round_us)
{
	u32 seen_us = x->rtt_us - x->rtt_min_us + RX_DRIFT_US, by_us = round_us >> RX_DRIFT_SHIFT;
	u32 low_us = rx_small(x) ? x->queue_us : x->low_us;

	if (low_us == NOISE_UNKNOWN || low_us <= seen_us)
		return;
	by_us = law_min(by_us, low_us - seen_us);
	x->offset_us -= by_us;
}

/* What a round of @passed_us tells of the path, at its end. */
LAW_APART int rx_learn(struct rx *x, u32 now_us, u32 passed_us)
{
	rx_align(x);
	if (!rx_small(x))
		x->low_us = noise_learn(&x->noise);
	rx_drift(x, passed_us);
	rx_notice_flat(x, now_us);
	silence_turn(&x->silence);
	return 0;
}

#endif
