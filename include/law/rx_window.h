/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The receiver's control law: TCP-LP's figure 3 on the window that a receiver advertises, in
 * bytes, as RFC 9840 (rLEDBAT) has it for LEDBAT++. It is called when an ACK is about to be
 * sent, and returns the window that the ACK is to carry. The sender is any sender.
 *
 *	measure	 owd  one-way delay of the newest data (law/rx_clock.h)
 *		 d    = RTT_min + owd - owd_min, fed to law/delay.h in the place of an RTT
 *	decide	 indication (eq. 2); at most one reaction per round trip (law/inference.h)
 *	act
 *	                    a loss, or 4 rounds in a queue that did not bring more
 *	  START ----------------------------------------------> AVOIDANCE
 *	  w = 5/2 of what a round trip brings                   w grows
 *	  (never in the sender's way)                            |          ^
 *	                                 indication:             v          | 3 RTT without
 *	                                 w = w RTT_min / RTT    INFERENCE --+ another one
 *	                                 another one: w = MSS
 *	  loss: w = w/2; without a queue, where the path carries one: nothing
 *
 *	grow	 w += MSS per round trip; where w < 7/8 back:
 *		 w += w/4 after RX_CALM rounds without a queue, MSS/8 in a queue
 *	back	 the largest rate of a round times RTT_min; a first indication takes 1/32 of
 *		 what it lies above the window that this one leaves
 *
 *  1. A round trip ends when data arrives that answers an ACK of its beginning, by our own
 *     timestamp that comes back (TSecr). What arrived meanwhile is the flight.
 *  2. What was advertised is never taken back: a smaller window stands still at its right
 *     edge until data has used it up. A reaction's round trip ends with the first data beyond
 *     that edge. Where the window scale rounds the edge up with each ACK it is followed, by
 *     at most as much again.
 *  3. The window is at least 1 MSS, and a multiple of the window scale's unit above that, or
 *     rounding would give back what a cut takes. RFC 9840 has 2 MSS, because the ACK of a
 *     single segment is delayed: the kernel sends it when the data is read, as the segment has
 *     used up the window. 2 MSS in a round trip of 150 ms are 1.6 % of 10 Mbit/s.
 *  4. The window only grows while it is what limits the flow: a round trip that brings less
 *     than half of it is limited by the sender or the application.
 *  5. A loss is a hole that is filled by a packet sent after those behind it, by TSval. A hole
 *     that an older packet fills was reordering. The queue at the hole tells the buffer. Where
 *     it is less than 1/RX_CHANCE of the largest one, the buffer did not overflow: that loss is
 *     left to the sender, which reduces for it.
 *  6. owd_min cannot tell the drift of the two clocks from a queue. Where a whole round's
 *     delays lie above the queue that the RTT shows, owd_min follows, by 1/1024 of the time.
 *  7. A delay that stands still is a longer path (law/flat.h).
 *  8. After a silence the smoothing starts anew, and the round trip too: the pause is none. The
 *     round trip that makes a silence doubles with each one, up to that silence: on a path that
 *     became longer than that, each segment of a small window comes after a silence. A delay
 *     that rose by a silence says nothing of the buffer (law/silence.h).
 *  9. A first indication drains, where TCP-LP halves: alone the queue is the flow's own, so
 *     the link stays busy. It drains the queue of this packet, where that is more than the
 *     smoothed one, which is late. If the queue is that of others it remains: in the inference
 *     phase 5 ms are an indication (half of a threshold above 10 ms). They are none while less
 *     than RX_FELL of the drained queue is there: that fell, so it was the flow's own, or of
 *     others that drained.
 * 10. The inference phase is of 3 round trips as they are now: they are shorter when others
 *     have left. Then the window comes back to what the path carried (`back`), not by a segment
 *     in a round trip. A queue that is met on that way is that of others, and slows it down.
 * 11. After RX_CALM_MOST rounds without a queue the link is wider than what is remembered:
 *     w += w/16 per round trip.
 * 12. The threshold. TCP-LP's 15 % of the largest queue depends on what a download has seen: those
 *     that came later, and saw less of the buffer than the first one, stayed at a tenth of its
 *     rate. Here it is
 *	   base / 4, 4 to 20 ms	  until a loss, or a queue half as long again (law/delay_buffer.h)
 *	   9 ms			  afterwards, but
 *	   half of the largest	  if that is less, and no loss has shown the buffer
 *	   a fifth of it	  if losses have shown a buffer below 18 ms
 *	   two packets' time	  if that is more than 9 ms (at this flow's own rate); at most a fifth
 *     and at least the noise of the path and two ticks of the sender's clock.
 *
 * Ranges: windows up to 2^30 bytes. Sequence numbers and us are u32 that wrap.
 */
#ifndef CCBPF_LAW_RX_WINDOW_H
#define CCBPF_LAW_RX_WINDOW_H

#include "law/rx_delay.h"

/* bytes: what this round has brought so far, or the last one */
LAW u32 rx_arriving(const struct rx *x, const struct rx_ack *a)
{
	return law_max(x->flight, a->rcv_nxt - x->round_seq);
}

LAW u32 rx_least(const struct rx_ack *a)
{
	return RX_LEAST_SEGMENTS * a->mss;
}

/* bytes: what a window keeps of @window without this queue */
LAW u32 rx_pipe(const struct rx *x, u32 window, u32 queue_us)
{
	return (u64)window * x->rtt_min_us / (x->rtt_min_us + queue_us);
}

/* bytes: @window as it can be advertised */
LAW u32 rx_rounded(u32 window, const struct rx_ack *a)
{
	u32 down = law_min(window, RX_MOST) & ~(a->unit - 1);

	return law_max(down, rx_least(a));
}

/* --- rounds, silences and holes ----------------------------------------------- */

/* What a round of @passed_us tells of the path, at its end. */
LAW_APART int rx_learn(struct rx *x, u32 now_us, u32 passed_us, u32 mss)
{
	rx_align(x);
	rx_notice_calm(x, mss);
	x->low_us = noise_learn(&x->noise);
	rx_drift(x, passed_us);
	rx_notice_flat(x, now_us, mss);
	silence_turn(&x->silence);
	return 0;
}

/* Our timestamp of the round's beginning came back, with new data: a round trip. */
LAW bool rx_round(struct rx *x, const struct rx_ack *a)
{
	u32 passed_us = a->now_us - x->round_us;

	if ((s32)(a->tsecr - x->round_ts) < 0 || a->rcv_nxt == x->rcv_nxt)
		return false;
	x->flight = a->rcv_nxt - x->round_seq;
	if (a->fresh) {
		x->rtt_us = law_clamp(passed_us, RX_TICK_US, DELAY_MAX_US);
		x->rtt_min_us = law_min(x->rtt_min_us, x->rtt_us);
		if (!x->holed)
			x->back =
				law_max(x->back, rx_pipe(x, x->flight, x->rtt_us - x->rtt_min_us));
	}
	rx_begin_round(x, a);
	rx_learn(x, a->now_us, passed_us, a->mss);
	return true;
}

LAW void rx_notice_silence(struct rx *x, const struct rx_ack *a)
{
	u32 since_us = a->now_us - x->heard_us;

	x->since_us = a->rcv_nxt == x->rcv_nxt ? 0 : since_us;
	if (!x->since_us)
		return;
	x->heard_us = a->now_us;
	if (law_likely(since_us < law_max(RX_IDLE_US, 2 * x->rtt_us)))
		return;
	x->rtt_us = law_min(2 * x->rtt_us, law_min(since_us, DELAY_MAX_US)); /* a longer path? */
	delay_restart(&x->delay);
	noise_begin(&x->noise);
	inference_idle(&x->inference, since_us >> KIUS_SHIFT);
	rx_begin_round(x, a);
}

/* Returns whether a hole was just filled, wholly or in part, by a packet that was sent again. */
LAW bool rx_lost(struct rx *x, const struct rx_ack *a)
{
	bool filled = x->hole && a->rcv_nxt != x->rcv_nxt;
	bool lost = filled && law_after(a->tsval, x->hole_ts);

	if (a->hole && (!x->hole || filled)) {
		x->hole_ts = a->tsval;
		x->hole_us = delay_certain(x->queue_us, rx_stood_us(x));
	}
	x->hole = a->hole;
	x->holed |= a->hole;
	return lost;
}

/* --- the window --------------------------------------------------------------- */

/* A reaction: until data beyond what is advertised, or was sent, arrives there is no other. */
LAW void rx_mute(struct rx *x, const struct rx_ack *a)
{
	u32 sent = law_min(a->left, 2 * law_max(rx_arriving(x, a), a->mss));

	x->credit = 0;
	x->calm = 0;
	x->follow_until = a->rcv_nxt + 2 * sent;
	inference_mute(&x->inference, a->rcv_nxt + sent);
}

/* The edge crept while the window shrinks: what lies before it was not sent after the cut. */
LAW void rx_follow(struct rx *x, const struct rx_ack *a)
{
	u32 sent = law_min(a->left, 2 * law_max(rx_arriving(x, a), a->mss));

	if (!x->inference.muted || a->left <= x->window + rx_least(a))
		return;
	if (!law_after(a->rcv_nxt + sent, x->follow_until) &&
	    law_after(a->rcv_nxt + sent, x->inference.muted_until))
		inference_mute(&x->inference, a->rcv_nxt + sent);
}

/* A first indication: the window without the queue, as if all of it were its own. */
LAW void rx_drain(struct rx *x, const struct rx_ack *a)
{
	u32 arriving = rx_arriving(x, a);
	u32 then = law_min(x->window, arriving + arriving / 4 + rx_least(a));
	u32 queue_us = law_max(delay_smoothed(&x->delay), x->queue_us);
	u32 to = law_max(rx_pipe(x, then, queue_us), rx_least(a));

	x->drained_us = queue_us;
	if (to < x->back)
		x->back -= (x->back - to) / RX_BACK_LESS;
	x->window = to;
}

/* bytes: half of the window, or of what arrives where that is less */
LAW u32 rx_half(const struct rx *x, const struct rx_ack *a)
{
	u32 used = law_min(x->window, rx_arriving(x, a) + rx_least(a));

	return law_max(used / 2, rx_least(a));
}

LAW void rx_leave_start(struct rx *x, const struct rx_ack *a)
{
	x->avoiding = 1;
	x->window = law_max(x->flight / 2, rx_least(a));
	inference_init(&x->inference);
	rx_mute(x, a);
}

/* START: out of the sender's way, and never far ahead, as nothing can be taken back. */
LAW enum rx_verdict rx_start(struct rx *x, const struct rx_ack *a, bool round, bool lost)
{
	u32 ahead = law_min(rx_arriving(x, a), RX_MOST / 4) * 5 / 2;

	x->window = law_max(ahead, RX_START_WINDOW);
	if (round && x->flight > x->most_flight + x->most_flight / 4) {
		x->most_flight = x->flight;
		x->flat = 0;
	} else if (round && x->low_us != NOISE_UNKNOWN) {
		x->flat = x->low_us > RX_FLOOR_US ? x->flat + 1 : 0;
	}
	if (!lost && x->flat < RX_FLAT)
		return RX_GROW;
	rx_leave_start(x, a);
	return lost ? RX_LOSS : RX_FLATTENED;
}

/* bytes that are to arrive for a segment more: a window of them; on the way back, and where
 * there is no queue for long, fewer, and more where a queue is met on the way back */
LAW u32 rx_cost(const struct rx *x, const struct rx_ack *a)
{
	if (x->window < x->back - x->back / 8) {
		if (!x->calm)
			return law_min(x->window, RX_MOST / RX_BACK_SLOW) * RX_BACK_SLOW;
		if (x->calm >= RX_CALM)
			return law_min(x->window, a->mss * RX_BACK_PART);
	}
	if (x->calm >= RX_CALM_MOST)
		return law_min(x->window, a->mss * RX_CALM_PART);
	return x->window;
}

/* A segment more for so much. */
LAW void rx_grow(struct rx *x, const struct rx_ack *a, u32 arrived)
{
	u32 cost = rx_cost(x, a);

	if (2 * rx_arriving(x, a) + rx_least(a) < x->window || x->window >= RX_MOST)
		return;
	x->credit += arrived;
	if (x->credit < cost)
		return;
	x->credit = law_min(x->credit - cost, cost);
	x->window += a->mss;
}

/* In the inference phase: is there less of a queue than was drained? */
LAW bool rx_fell(const struct rx *x)
{
	return x->inference.active && x->queue_us < x->drained_us / 4 * RX_FELL;
}

/* Figure 3. */
LAW enum rx_verdict rx_avoid(struct rx *x, const struct rx_ack *a, bool indicated, u32 arrived)
{
	struct inference_ack at = {
		.now_us = a->now_us,
		.rtt_us = x->rtt_min_us + x->queue_us,
		.snd_una = a->rcv_nxt,
		.snd_nxt = a->rcv_nxt,
		.rtts = RX_RTTS,
	};
	enum inference_verdict verdict;
	u32 length_us;

	length_us = inference_length_us(&at);
	if (inference_left_us(&x->inference, a->now_us) > length_us)
		x->inference.until_us = a->now_us + length_us; /* the queue is less by now */
	inference_expire(&x->inference, a->now_us);
	verdict = inference_step(&x->inference, &at, indicated && !rx_fell(x));
	if (verdict == INFERENCE_GROW) {
		rx_grow(x, a, arrived);
	} else if (verdict != INFERENCE_HOLD) {
		if (verdict == INFERENCE_HALVE)
			rx_drain(x, a);
		else
			x->window = rx_least(a);
		rx_mute(x, a);
	}
	return (enum rx_verdict)verdict;
}

/* Was there no queue at the hole, where the buffer carries one? */
LAW bool rx_chance(const struct rx *x)
{
	u32 most_us = delay_queue_max(&x->delay);

	return most_us >= RX_CHANCE * RX_FLOOR_US && x->hole_us < most_us / RX_CHANCE;
}

/* An ACK is about to be sent: what the window becomes, in x->window. */
LAW enum rx_verdict rx_step(struct rx *x, const struct rx_ack *a)
{
	u32 arrived = a->rcv_nxt - x->rcv_nxt;
	struct delay_params p;
	bool lost = law_forget(rx_lost(x, a)), round, indicated;

	rx_notice_silence(x, a);
	round = law_forget(rx_round(x, a));
	rx_follow(x, a);
	if (x->avoiding && inference_unmute(&x->inference, a->rcv_nxt))
		delay_restart(&x->delay);
	indicated = law_forget(rx_measure(x, a));
	if (lost) {
		rx_params(x, &p);
		delay_lost(&x->delay, x->hole_us, !x->avoiding, &p);
	}
	x->rcv_nxt = a->rcv_nxt;
	if (!x->avoiding)
		return rx_start(x, a, round, lost);
	if (lost && !x->inference.muted && !rx_chance(x)) {
		x->window = rx_half(x, a);
		rx_mute(x, a);
		return RX_LOSS;
	}
	return rx_avoid(x, a, indicated, arrived);
}

/* bytes: what this ACK may advertise */
LAW u32 rx_window(struct rx *x, const struct rx_ack *a)
{
	return rx_rounded(x->window, a);
}

/* Is the flow held back? For the account. */
LAW bool rx_holds(const struct rx *x, u32 now_us, u32 mss)
{
	return x->avoiding &&
	       (inference_left_us(&x->inference, now_us) || x->window <= RX_SMALL_SEGMENTS * mss);
}

#endif
