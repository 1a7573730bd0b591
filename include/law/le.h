/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The window law of `le`: drain the flow's own queue, and judge whether a queue remains that
 * others keep. bpf/le.bpf.c has the story and the reasons; here are its equations.
 *
 *	block	 packets acknowledged: max(LE_BLOCK_LEAST, w / 4), of at least 3 ACKs; q is the
 *		 smallest queueing delay of a block (law/delay.h). In SMALL a block is a pair
 *	T	 the threshold of q
 *	pipe	 w base / (base + q): what a window keeps without its own queue
 *	spared	 what noise explains of q, if noise raised T and back >= LE_ALONE; else 0
 *	then	 moving mean (1/2) of the windows at the rounds' beginnings, for the window that
 *		 sent the packets which are acknowledged now
 *
 *	FREE	 q > T: back = max(back, pipe(then, min(q, T))); w = pipe(then, q - spared) -> CUT
 *		 the first indication of all, and w < LE_ALONE				-> SMALL
 *		 a tight buffer, within 3 rounds of a cut or a return			-> SMALL
 *	CUT	 until a packet that was sent after the cut is acknowledged		-> JUDGE
 *		 a tight buffer is full							-> SMALL
 *	JUDGE	 q > T in two blocks, or once with q > 2 q of the cut			-> SMALL
 *		 q <= T									-> FREE
 *	SMALL	 a pair each `gap` RTT; q > T: gap doubles; no queue: 4 packets, then back	-> FREE
 *		 where gap >= LE_AGAIN a second pair must find none either
 *
 * Ranges, saturating: delays in 16 us up to 1.05 s; windows in 1/256 packet up to 2^24 packets.
 */
#ifndef CCBPF_LAW_LE_H
#define CCBPF_LAW_LE_H

#include "law/le_state.h"

/* --- measure ----------------------------------------------------------- */

/* packets that a block needs */
LAW u32 le_block_size(u32 window)
{
	return law_clamp(window >> LE_BLOCK_SHIFT, LE_BLOCK_LEAST, LE_MOST);
}

/* Is the block over? In SMALL it is a pair, and over when nothing is left in flight. */
LAW bool le_block_over(const struct le *l, u32 window, u32 flying, const struct le_path *p)
{
	bool noisy = p->noise_us > p->noisy_us;

	if (law_unlikely(l->stage == LE_SMALL))
		return !flying;
	return l->block >= le_block_size(window) &&
	       l->samples >= (noisy ? LE_SAMPLES_NOISY : LE_SAMPLES);
}

/* May the receiver have delayed this ACK? It delays the ACK of a single packet with nothing
 * behind it. Before a hole the RTT is that of the packet before the hole, whose ACK may have
 * waited as long. */
LAW bool le_late(const struct le *l, const struct le_ack *a)
{
	return a->hole || (a->acked <= 1 && !a->flying && le_units(a->queue_us) > l->last);
}

/* An ACK. Two kinds are not used: one that may be late and would be a block by itself, and in
 * SMALL one that leaves packets in flight, because it is of packets that left before the pair. A
 * late ACK does not count for the largest queue. True: a block has ended, q is new. */
LAW bool le_sample(struct le *l, const struct le_ack *a, u32 window, const struct le_path *p)
{
	u16 queue = le_units(a->queue_us), sure;
	bool late = le_late(l, a);

	if (late && !a->hole && !l->samples)
		return false;
	if (l->stage == LE_SMALL && a->flying >= LE_LEAST)
		return false;
	if (!late) {
		l->most = law_max(l->most, le_sure(law_min(queue, l->last), p));
		l->last = queue;
	}
	l->low = law_min(l->low, queue);
	l->block = law_min(l->block + law_min(a->acked, LE_MOST), LE_MOST);
	if (l->samples < LE_SAMPLES_NOISY)
		l->samples++;
	if (!le_block_over(l, window, a->flying, p))
		return false;
	l->q = l->low;
	if (l->stage != LE_SMALL && window >= LE_RETURN) {
		sure = le_sure(l->q, p);
		l->most = law_max(l->most, sure); /* where packets overtake, each ACK is late */
		l->fits |= le_us(sure) >= p->threshold_us;
	}
	le_block(l);
	return true;
}

/* Has the path lost a packet before any queue of T was seen, and has the window not grown beyond
 * that of this loss since then? `back` is its half. A policer, and a buffer of a few packets, would
 * lose there again. */
LAW bool le_held(const struct le *l, u32 window_q8)
{
	return l->bare && !l->fits && window_q8 / LE_BEYOND < l->back_q8 / 2;
}

/* A round has ended (law/noise.h); a cut begins one, and its end shows the cut's effect.
 * @grows: the window is what limits the flow. */
LAW void le_round(struct le *l, u32 window_q8, bool grows, const struct le_path *p)
{
	bool empty = le_us(l->q) <= le_threshold(l, p) / 4;

	if (l->stage == LE_CUT) {
		l->stage = LE_JUDGE;
		le_block(l);
	}
	l->then_q8 = l->then_q8 ? l->then_q8 / 2 + window_q8 / 2 : window_q8;
	l->rounds = law_min(l->rounds + 1, LE_LOST_MOST);
	if (l->stage != LE_FREE || !grows)
		return;
	if (!empty || le_held(l, window_q8)) {
		l->count = 0;
		l->growth = law_min(l->growth, LE_SLOW);
	} else if (l->count < 255) {
		l->count++;
	}
	if (l->growth < LE_SLOW - l->bare)
		l->growth++;
	else if (l->count >= p->quiet_rounds && l->growth < LE_GROWTH_MOST && !l->marked)
		l->growth++;
}

/* A round has ended. @rtt_queue_us: what the round trip says of the queue. Above 2 T the one-way delay
 * may still show none, but that rests on the peer's clock, and a peer may lie. Then growth is no
 * faster than reno's. */
LAW void le_distrust(struct le *l, u32 rtt_queue_us, const struct le_path *p)
{
	if (l->stage != LE_FREE || rtt_queue_us <= 2 * le_threshold(l, p))
		return;
	l->count = 0;
	l->growth = law_min(l->growth, LE_SLOW);
}

/* The connection was idle: forget the queue, and for how long there was none. */
LAW void le_rested(struct le *l)
{
	le_block(l);
	l->last = 0;
	if (l->stage == LE_SMALL)
		return;
	l->count = 0;
	l->growth = law_min(l->growth, LE_SLOW);
}

/* packets that must be acknowledged for the window to grow by one; @starting: the window has not
 * yet reached the end of a start or a return */
LAW u32 le_every(const struct le *l, u32 window, bool starting)
{
	window = law_clamp(window, 1, LE_WINDOW_MOST);
	if (starting)
		return LE_START;
	if (l->growth <= LE_SLOW)
		return window << (LE_SLOW - l->growth);
	return law_max(window >> (l->growth - LE_SLOW), LE_FAST);
}

/* --- decide ------------------------------------------------------------ */

/* 1/256 packet: what is left of a window without the queue that it causes */
LAW u32 le_pipe(u32 window_q8, u32 queue_us, const struct le_path *p)
{
	if (!p->base_us)
		return window_q8;
	return law_forget((u64)window_q8 * p->base_us / ((u64)p->base_us + queue_us));
}

/* Is T large beside the round trip? Then a drained window leaves the link idle for as long. */
LAW bool le_short(const struct le *l, const struct le_path *p)
{
	return p->base_us < le_threshold(l, p) * LE_SHORT;
}

/* us: what noise explains of a queue. A drain cannot take that away, so a flow that is no crowd's
 * keeps it. */
LAW u32 le_spared(const struct le *l, const struct le_path *p)
{
	bool noisy = le_threshold(l, p) > le_quiet_threshold(l, p);

	return noisy && l->back_q8 >= LE_ALONE * LE_ONE ? le_noise(l, p->noise_us) : 0;
}

/* 1/256 packet: the window after FREE has met this queue, of which @spared_us stay; updates back. */
LAW_INSIDE u32 le_drained(struct le *l, u32 window_q8, u32 queue_us, u32 spared_us,
			  const struct le_path *p)
{
	u32 then_q8 = l->then_q8 ? law_min(l->then_q8, window_q8) : window_q8;
	u32 t_us = le_threshold(l, p), most_us = law_min(queue_us, t_us), left_us;

	if (l->stage == LE_FREE)
		l->back_q8 = law_max(l->back_q8, le_pipe(then_q8, most_us, p));
	queue_us -= law_min(queue_us, spared_us);
	if (le_short(l, p) && p->base_seen) {
		left_us = law_min(p->threshold_us / 2, t_us);
		queue_us = law_max(queue_us, left_us) - left_us;
	}
	return law_max(le_pipe(then_q8, queue_us, p), LE_LEAST * LE_ONE);
}

/* The window was cut. */
LAW void le_cut(struct le *l, u32 to_q8, const struct le_path *p)
{
	l->cut_q = l->q;
	l->of_loss = 0;
	l->stage = LE_CUT;
	l->growth = le_short(l, p) ? LE_SLOW : 0;
	l->count = 0;
	l->then_q8 = to_q8;
	le_block(l);
}

/* JUDGE: the queue fell, so it was our own: back loses a part of what a return would have given. */
LAW void le_fell(struct le *l, u32 window_q8)
{
	l->stage = LE_FREE;
	l->count = 0;
	if (l->back_q8 > window_q8)
		l->back_q8 -= (l->back_q8 - window_q8) / LE_FELL;
}

/* RTTs: the largest gap between two pairs. A fast flow looks often: its pairs are little there. */
LAW u32 le_gap_most(const struct le *l, const struct le_path *p)
{
	u32 share = p->gap_share / law_max(l->back_q8 >> LE_Q8_SHIFT, 1);

	return law_clamp(share, LE_GAP_LEAST, p->gap_max);
}

/* pairs that must find the same delay before it is taken for a longer path: @pairs at gaps of
 * LE_FLAT_US or more; more of them at shorter gaps, so that they take as long. The plateau of
 * cubic lasts seconds, however short the RTT is. */
LAW u32 le_flat_pairs(u32 pairs, u32 gap_us)
{
	u32 most = (u64)pairs * LE_FLAT_US / law_max(gap_us, 1);

	return law_clamp(most, pairs, LE_FLAT_MOST);
}

/* Only pairs from now on. @fresh: the first one leaves at once, and does not count. */
LAW void le_small_begin(struct le *l, u32 gap, bool fresh)
{
	l->stage = LE_SMALL;
	l->count = gap;
	l->growth = fresh ? LE_FRESH : 0;
	l->of_loss = 0;
	l->cut_q = 0;
	le_block(l);
}

/* RTTs: from this pair to the next one */
LAW u32 le_gap(const struct le *l)
{
	return l->growth == 1 ? 1 : l->count;
}

/* A pair has been acknowledged. */
LAW enum le_verdict le_pair(struct le *l, bool high, const struct le_path *p)
{
	if (high || l->growth == LE_FRESH) {
		if (l->growth != LE_FRESH) {
			l->count = law_min(l->count * 2, le_gap_most(l, p));
			l->of_loss = 0;
		}
		l->growth = 0;
		return LE_WAIT;
	}
	if (l->count >= LE_AGAIN && !l->growth) {
		l->growth = 1;
		return LE_GO_ON;
	}
	l->stage = LE_FREE;
	l->count = 0;
	return LE_BACK;
}

/* Others keep the queue. Flows of only a few packets may be a crowd of le flows: such a flow
 * looks again soon, unless the buffer is little, where all windows are small. */
LAW void le_others(struct le *l, const struct le_path *p)
{
	bool steady = le_steady(l, 0) || le_buffer_below(l, LE_LITTLE, p);

	le_small_begin(l, steady ? LE_GAP_FIRST : 1, steady);
}

/* A block of the cut's judgement has ended. */
LAW enum le_verdict le_judge(struct le *l, u32 window_q8, bool high, const struct le_path *p)
{
	if (!high) {
		le_fell(l, window_q8);
		return LE_GROW;
	}
	l->count++;
	if (l->count < LE_JUDGED && l->q <= 2 * (u32)l->cut_q)
		return LE_GO_ON;
	le_others(l, p);
	return LE_YIELD;
}

/* Is this the first indication of a flow that never had a large window? */
LAW bool le_first(const struct le *l, u32 window)
{
	return l->stage == LE_FREE && !l->back_q8 && window < LE_ALONE;
}

/* In a tight buffer: did this queue come too soon to be this flow's own? For three rounds after a
 * cut or a return the window grows by less than a packet. */
LAW bool le_pushed(const struct le *l, const struct le_path *p)
{
	return l->stage == LE_FREE && le_buffer_below(l, LE_TIGHT, p) && l->then_q8 &&
	       l->growth < LE_SLOW - l->bare;
}

/* Is a tight buffer full, although this flow drained its own part when it was half full? Then
 * others fill it, and their loss would be mistaken for the effect of the drain. */
LAW bool le_filled(const struct le *l, const struct le_path *p)
{
	return l->stage == LE_CUT && !l->of_loss && le_buffer_below(l, LE_TIGHT, p) &&
	       le_us(l->most) >= LE_COUNTED * p->packet_us && l->q >= l->most - l->most / 8;
}

/* packets: where the slow start of a return ends. In a little buffer there is none, as it would
 * cost the others a loss. */
LAW u32 le_return_to(const struct le *l, const struct le_path *p)
{
	if (le_buffer_below(l, LE_LITTLE, p))
		return LE_RETURN;
	return law_max(l->back_q8 >> LE_Q8_SHIFT, LE_RETURN);
}

/* A block has ended: what now? */
LAW enum le_verdict le_decide(struct le *l, u32 window_q8, const struct le_path *p)
{
	u32 queue_us = le_us(l->q), t_us = le_threshold(l, p);

	if (l->stage == LE_SMALL)
		return le_pair(l, queue_us > t_us, p);
	if (l->stage == LE_JUDGE)
		return le_judge(l, window_q8, queue_us > t_us, p);
	if (le_filled(l, p) || (queue_us > t_us && le_pushed(l, p))) {
		le_others(l, p);
		return LE_YIELD;
	}
	if (l->stage != LE_FREE || queue_us <= t_us)
		return LE_GO_ON;
	if (!le_first(l, window_q8 >> LE_Q8_SHIFT))
		return LE_DRAIN;
	le_drained(l, window_q8, queue_us, 0, p);
	le_small_begin(l, LE_GAP_START, false);
	return LE_YIELD;
}

#endif
