/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The state of a receiver's control law (law/rx_window.h, which is its specification), and
 * the part of it that measures: the one-way delay of received data on the scale of the RTT,
 *
 *	d = RTT_min + owd - owd_min
 *
 * fed to law/delay.h in the place of an RTT, so that its average and its memory hold for it.
 */
#ifndef CCBPF_LAW_RX_DELAY_H
#define CCBPF_LAW_RX_DELAY_H

#include "law/delay.h"
#include "law/flat.h"
#include "law/inference.h"
#include "law/noise.h"
#include "law/rx_clock.h"
#include "law/silence.h"

#define RX_START_WINDOW 65535 /* bytes: the least in START */
#define RX_LEAST_SEGMENTS 1
#define RX_MOST (1u << 30)
#define RX_FLAT 4 /* rounds: a window too much */
#define RX_THRESHOLD_US 9000 /* the threshold, where the buffer is known and not small (12.) */
#define RX_REMAINS_US 5000 /* in the inference phase: this, or half of the threshold if more */
#define RX_SMALL_US 18000 /* a buffer that overflowed with less is small */
#define RX_DELTA 200 /* permille of a small buffer: its threshold, as in eq. 2 of TCP-LP */
#define RX_PACKETS 2 /* on a slow link the threshold is up to the time of so many packets */
#define RX_SMOOTHING 8 /* samples, as TCP-LP's */
#define RX_MEMORY_S 180 /* VI-A */
#define RX_FLOOR_US 2000 /* two ticks of most clocks: their rounding is no queue */
#define RX_SAMPLES 2 /* that an indication needs after a restart; 1 in a small window */
#define RX_SMALL_SEGMENTS 4
#define RX_CALM 6 /* rounds without a queue: others have left */
#define RX_BACK_PART 4 /* then the window grows by 1/4 in a round up to 7/8 of what it was */
#define RX_BACK_SLOW 8 /* where a queue is met on that way it grows so many times slower */
#define RX_BACK_LESS 32 /* part of the way back that a first indication on that way takes */
#define RX_CALM_MOST 32 /* rounds without a queue: the link is wider than the window */
#define RX_CALM_PART 16 /* then it grows by 1/16 in a round */
#define RX_FELL 3 /* quarters of the drained queue: if less is left, it fell */
#define RX_CHANCE 4 /* a loss in less than 1/4 of the largest queue is chance */
#define RX_RTTS 3 /* III-B: length of the inference phase */
#define RX_REBASE_US 10000000 /* of a small window: longer than cubic's plateau */
#define RX_IDLE_US 200000 /* the least RTO */
#define RX_DRIFT_SHIFT 10 /* 1/1024: 1000 ppm, clocks are within 200 */
#define RX_TICK_US 1000 /* of our TSval */
#define RX_JUMP_US (1 << 21) /* no queue was that long: our clock stood still (suspend) */

enum rx_verdict {
	RX_GROW = INFERENCE_GROW,
	RX_HOLD = INFERENCE_HOLD,
	RX_HALVE = INFERENCE_HALVE,
	RX_TO_LEAST = INFERENCE_TO_ONE,
	RX_LOSS,
	RX_FLATTENED, /* START ended without a loss */
};

struct rx {
	struct delay delay;
	struct rx_clock clock;
	struct noise noise;
	struct silence silence;
	struct inference inference;
	s32 offset_us; /* d = owd + offset */
	u32 window; /* bytes */
	u32 back; /* bytes: what the path carried in RTT_min, to come back to */
	u32 credit; /* bytes that arrived since it grew */
	u32 rcv_nxt; /* of the last ACK */
	u32 heard_us; /* our clock: the last data */
	u32 since_us; /* from the data before it, 0: this ACK has no new data */
	u32 round_seq, round_us, round_ts; /* this round's beginning */
	u32 flight; /* bytes of the last round */
	u32 most_flight; /* START: the largest */
	u32 rtt_us, rtt_min_us;
	u32 queue_us; /* the last sample */
	u32 drained_us; /* the queue that the last drain was for */
	u32 hole_ts; /* TSval of what arrived first behind a hole */
	u32 hole_us; /* the queue then */
	u32 follow_until; /* sequence number: how far a crept edge is followed */
	u32 low_us; /* the smallest of the last round, or NOISE_UNKNOWN */
	u32 flat_us; /* first delay of those that stand still */
	u32 flat_at_us; /* our clock: its round ended */
	u8 started : 1;
	u8 avoiding : 1;
	u8 hole : 1;
	u8 holed : 1; /* there was a hole in this round: what it brings is not its rate */
	u8 flat; /* START: rounds in a row that brought no more, in a queue */
	u8 calm; /* rounds in a row without a queue, up to RX_CALM_MOST */
	u8 still; /* rounds whose delay stands still */
};

/* What the law reads of the socket. */
struct rx_ack {
	u32 now_us; /* our clock; of the newest packet's arrival where it is fresh */
	u64 long_us; /* the same in 64 bits */
	u32 our_ts; /* TSval that this ACK carries */
	u32 tsval, tsecr; /* of the newest packet */
	u32 rcv_nxt;
	u32 left; /* bytes from there to the right edge that is advertised */
	u32 mss;
	u32 unit; /* of the window scale: 1 << scale */
	u32 rtt_us; /* the handshake's; >= 1 */
	bool fresh; /* the ACK answers the newest packet at once */
	bool hole; /* data waits behind a hole */
};

LAW void rx_params(const struct rx *x, struct delay_params *p)
{
	p->delta = RX_DELTA;
	p->smoothing = RX_SMOOTHING;
	p->memory_s = RX_MEMORY_S;
	p->floor_us = law_max(RX_FLOOR_US, 2 * (x->clock.tick_ns / 1000));
	p->least = RX_SAMPLES;
	p->noise_us = noise_us(&x->noise);
}

LAW void rx_begin_round(struct rx *x, const struct rx_ack *a)
{
	x->round_seq = a->rcv_nxt;
	x->round_us = a->now_us;
	x->round_ts = a->our_ts;
	x->holed = a->hole;
}

LAW void rx_init(struct rx *x, const struct rx_ack *a)
{
	delay_init(&x->delay);
	rx_clock_init(&x->clock);
	noise_init(&x->noise, 0);
	silence_init(&x->silence);
	inference_init(&x->inference);
	x->rtt_us = x->rtt_min_us = law_clamp(a->rtt_us, RX_TICK_US, DELAY_MAX_US);
	x->offset_us = x->rtt_min_us;
	x->rcv_nxt = a->rcv_nxt;
	x->heard_us = a->now_us;
	x->window = RX_START_WINDOW;
	x->started = 1;
	rx_begin_round(x, a);
}

/* --- the delay ---------------------------------------------------------------- */

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
LAW void rx_new_clock(struct rx *x)
{
	delay_init(&x->delay);
	x->offset_us = x->rtt_min_us;
	x->queue_us = 0;
}

/* us: RTT_min + owd - owd_min. A delay below all others by more than RTT_min moves the scale. */
LAW u32 rx_delay(struct rx *x, const struct rx_ack *a)
{
	s64 delay_us = rx_clock_owd_us(&x->clock, a->now_us, a->tsval) + x->offset_us;

	if (law_unlikely(delay_us < -RX_JUMP_US)) {
		rx_clock_anchor(&x->clock, a->now_us, a->tsval, 0);
		rx_new_clock(x);
		delay_us = x->offset_us;
	}
	if (law_unlikely(delay_us < 1)) {
		rx_shift(x, (s32)(1 - delay_us));
		delay_us = 1;
	}
	return law_min(law_forget(delay_us), DELAY_MAX_US);
}

/* us: RX_PACKETS at the rate that this flow came to; at most that many round trips */
LAW u32 rx_packets_us(const struct rx *x, u32 mss)
{
	u64 bytes = (u64)RX_PACKETS * mss;

	return bytes * x->rtt_min_us / (law_max(x->back, mss) ?: 1);
}

/* us: what the buffer, or the part of it that was seen, allows */
LAW u32 rx_part_us(const struct rx *x, const struct delay_params *p, u32 mss)
{
	u32 part_us = delay_part(&x->delay, p), half_us = x->delay.most_us / 2;

	if (!delay_known(&x->delay))
		return part_us;
	if (!x->delay.overflowed || x->delay.most_us >= RX_SMALL_US)
		part_us = law_max(part_us, law_min(RX_THRESHOLD_US, half_us));
	return law_min(part_us, law_max(RX_THRESHOLD_US, rx_packets_us(x, mss)));
}

/* us: a smoothed delay above it is an indication (12.) */
LAW u32 rx_threshold(const struct rx *x, const struct delay_params *p, u32 mss)
{
	return law_max(law_forget(rx_part_us(x, p, mss)), law_forget(delay_floor(&x->delay, p)));
}

LAW bool rx_indicates(const struct rx *x, const struct delay_params *p, u32 mss)
{
	if (x->delay.samples < p->least)
		return false;
	return delay_smoothed(&x->delay) > rx_threshold(x, p, mss);
}

/* In the inference phase the window has no queue of its own: a smaller one is that of others. */
LAW bool rx_remains(const struct rx *x, const struct delay_params *p, u32 mss)
{
	u32 half_us = law_max(rx_threshold(x, p, mss) / 2, law_max(RX_REMAINS_US, 2 * p->floor_us));

	if (!x->inference.active || x->delay.samples < DELAY_FIRST)
		return false;
	return delay_smoothed(&x->delay) > law_max(half_us, p->noise_us);
}

/* us: for so long what arrives now has met a path that stood still. A time that saturates is as
 * long as any delay: nothing is learned of it. */
LAW u32 rx_stood_us(const struct rx *x)
{
	u32 stood_us = silence_stood_us(&x->silence);

	return stood_us < SILENCE_MOST << SILENCE_SHIFT ? stood_us : DELAY_MAX_US;
}

/* A packet's delay. Returns whether it is an indication. */
LAW bool rx_measure(struct rx *x, const struct rx_ack *a)
{
	struct delay_ack sample = { .now_us = a->long_us };
	bool apart = x->window <= RX_SMALL_SEGMENTS * a->mss;
	u32 before_us = x->queue_us;
	struct delay_params p;

	if (!a->fresh)
		return false;
	if (rx_clock_heard(&x->clock, a->now_us, a->tsval))
		rx_new_clock(x);
	if (!x->clock.tick_ns)
		return false;
	rx_params(x, &p);
	if (apart)
		p.least = 1;
	sample.rtt_us = rx_delay(x, a);
	x->queue_us = delay_measure(&x->delay, &sample, &p);
	noise_put(&x->noise, x->queue_us);
	if (silence_was(x->since_us, 0))
		silence_take(&x->silence, x->since_us, x->queue_us, before_us, apart);
	delay_take(&x->delay, x->queue_us, rx_stood_us(x), false, &p);
	return x->avoiding && (rx_indicates(x, &p, a->mss) || rx_remains(x, &p, a->mss));
}

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
	u32 seen_us = x->rtt_us - x->rtt_min_us + RX_FLOOR_US, by_us = round_us >> RX_DRIFT_SHIFT;

	if (x->low_us == NOISE_UNKNOWN || x->low_us <= seen_us)
		return;
	by_us = law_min(by_us, x->low_us - seen_us);
	x->offset_us -= by_us;
	delay_base_moved(&x->delay, -(s32)by_us);
}

/* A round has ended: was it without a queue? To be called before noise_learn(). */
LAW void rx_notice_calm(struct rx *x, u32 mss)
{
	u32 most_us = (u32)x->noise.high << NOISE_SPREAD_SHIFT, empty_us;
	struct delay_params p;

	rx_params(x, &p);
	empty_us = law_max(rx_threshold(x, &p, mss) / 4, 2 * p.floor_us);
	if (!x->noise.samples || most_us > empty_us)
		x->calm = 0;
	else if (x->calm < RX_CALM_MOST)
		x->calm++;
}

/* A delay that stands still above the threshold is a longer path. */
LAW_APART int rx_notice_flat(struct rx *x, u32 now_us, u32 mss)
{
	bool few = x->low_us == NOISE_UNKNOWN;
	u32 low_us = few ? x->queue_us : x->low_us, full_us = 0, rise_us;
	struct delay_params p;

	rx_params(x, &p);
	if (low_us <= rx_threshold(x, &p, mss)) {
		x->still = 0;
		x->flat_us = 0;
		return 0;
	}
	x->still = flat_count(x->still, low_us, x->flat_us, p.noise_us / 4);
	if (!x->still) {
		x->flat_us = low_us;
		x->flat_at_us = now_us;
	}
	if (delay_known(&x->delay))
		full_us = x->delay.most_us;
	if (x->still < flat_enough(FLAT_ROUNDS, low_us, full_us) ||
	    (few && now_us - x->flat_at_us < RX_REBASE_US))
		return 0;
	rise_us = delay_rebase(&x->delay, delay_base_us(&x->delay) + low_us);
	x->rtt_min_us = law_min(x->rtt_min_us + rise_us, DELAY_MAX_US);
	x->still = 0;
	x->flat_us = 0;
	return 0;
}

#endif
