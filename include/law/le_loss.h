/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a loss and a mark leave of the window of `le`, and what they say of the path.
 *
 *	chance	 a lone loss with no queue, on a path that has carried a queue of T, or the first
 *		 loss of the start: w = pipe(w, q)
 *	loss	 w = min(w / 2, drained): CUT; the first indication of a small window: SMALL
 *	mark	 w = min(7/8 w, drained), where the queue is below `threshold`, or the buffer small,
 *		 half of w: CUT; in JUDGE: SMALL; in SMALL: as a pair that found a queue
 *
 * law/le.h has the names, bpf/le.bpf.c (10. and 11.) the reasons.
 */
#ifndef CCBPF_LAW_LE_LOSS_H
#define CCBPF_LAW_LE_LOSS_H

#include "law/le.h"

/* us: the queue that a loss was in: no more than what the block says */
LAW u32 le_lost_us(const struct le *l)
{
	u16 block = l->low == LE_NONE_YET ? l->last : law_max(l->low, l->q);

	return law_forget(le_us(law_min(l->last, block)));
}

/* A loss far below the largest queue: the buffer was not full, so it is not known to be small. */
LAW void le_doubt_small(struct le *l, u16 queue)
{
	if (queue >= l->most / 2)
		return;
	l->small_buffer = law_forget(0);
	if (l->fits)
		l->bare = law_forget(0);
}

/* Has a queue of T passed, and none that was much larger, since the flow cuts its window at T? Then
 * it is its own cuts that keep the largest queue there. */
LAW bool le_own_most(const struct le *l, const struct le_path *p)
{
	u32 most_us = law_forget(le_us(l->most));

	return law_forget((l->back_q8 != 0) & l->fits) &
	       (most_us < p->threshold_us / LE_OWN * (LE_OWN + 1));
}

/* What a loss or a mark in this queue (16 us) says of the buffer. Where the largest queue is of the
 * flow's own, one loss in it may be chance: it only slows the growth, and the next one says that the
 * buffer is small. @certain: a mark is no chance */
LAW void le_learn_buffer(struct le *l, u16 queue, bool certain, const struct le_path *p)
{
	bool chance = le_own_most(l, p) && !certain && law_forget(!l->bare);
	u16 most = law_forget(l->most);

	l->bare = law_forget(!l->fits);
	if (le_us(most) < p->threshold_min_us || queue < most / 4 * 3)
		le_doubt_small(l, queue);
	else if (chance)
		l->bare = law_forget(1);
	else
		l->small_buffer = law_forget(1);
}

/* Is a loss chance? There was no queue, and this path has carried one without a loss, or it is the
 * first loss of all. */
LAW bool le_chance(const struct le *l, bool starting, const struct le_path *p)
{
	bool first = starting && !l->back_q8 && p->base_us, soon = l->rounds < LE_CHANCE_ROUNDS;
	bool may = law_forget(first || (l->fits && !starting));

	return may && !soon && l->stage != LE_SMALL && le_us(l->last) < p->threshold_us;
}

/* A loss seemed to be chance. @retransmits: packets that were sent again so far, as below. No ACK is
 * measured during a repair, so `block` is free to remember it. */
LAW void le_seems_alone(struct le *l, u32 retransmits)
{
	l->block = retransmits & LE_MOST;
}

/* A repair is over. Was a loss that seemed to be chance one of many? The losses of a burst are found
 * one by one. */
LAW bool le_was_many(const struct le *l, u32 retransmits)
{
	return l->stage != LE_SMALL && l->of_loss && (u16)(retransmits - l->block) > LE_LEAST;
}

/* packets: what a loss leaves of this window; @chance: it was le_chance() */
LAW u32 le_loss(struct le *l, u32 window, bool chance, const struct le_path *p)
{
	u32 queue_us = le_lost_us(l), to, window_q8 = le_q8(window);
	bool first = law_forget(le_first(l, window));

	le_before_loss(l);
	l->rounds = 0;
	l->fits |= l->samples >= LE_SAMPLES && le_us(le_sure(l->low, p)) >= p->threshold_us;
	if (l->stage == LE_SMALL)
		return LE_LEAST;
	if (chance) {
		le_doubt_small(l, le_units(queue_us));
		l->of_loss = 1;
		return law_max(le_pipe(window_q8, queue_us, p) >> LE_Q8_SHIFT, LE_LEAST);
	}
	le_learn_buffer(l, le_units(queue_us), false, p);
	to = law_min(le_drained(l, window_q8, queue_us, 0, p) >> LE_Q8_SHIFT, window / 2);
	to = law_max(to, LE_LEAST);
	if (!l->fits)
		l->back_q8 = law_min(l->back_q8, le_q8(to));
	l->q = law_max(l->q, le_units(queue_us));
	if (l->stage == LE_FREE && !first)
		le_cut(l, le_q8(to), p);
	if (first)
		le_small_begin(l, LE_GAP_START, false);
	l->of_loss = 1;
	return first ? LE_LEAST : to;
}

/* A loss left @to packets, and the round trip shows a queue above T. The one-way delay may show none, but
 * that rests on the peer's clock, and a peer may lie. So nothing brings back what this loss took. */
LAW void le_loss_stays(struct le *l, u32 to)
{
	if (l->stage != LE_SMALL)
		l->back_q8 = law_min(l->back_q8, le_q8(to));
}

/* packets: what is left when a loss that was taken for chance turns out to be one of many, or a
 * timeout. le_needless() still brings back what was known before that loss. */
LAW u32 le_loss_again(struct le *l, u32 window, const struct le_path *p)
{
	u8 small = l->was_small, bare = l->was_bare, first = l->was_first;
	u32 to = le_loss(l, window, false, p);

	l->was_small = small;
	l->was_bare = bare;
	l->was_first = first;
	return to;
}

/* A pair was marked, or the one packet that is sent after such a mark. The mark may be for the pair's
 * own wait, as its second packet finds the first one in the queue. So one mark after a pair that found
 * no queue does not end the return. */
LAW void le_pair_marked(struct le *l, const struct le_path *p)
{
	bool looked = l->growth == 1;

	le_pair(l, true, p);
	if (looked)
		l->growth = 2;
	le_block(l);
}

/* packets: what a mark leaves. A mark is a certain indication. A router that marks a queue below
 * `threshold` keeps the queue there, where the delay says nothing: such a mark takes half of the
 * window, and says of the buffer what a loss says. After the mark of a pair one packet is left: of two that
 * are sent apart one would always be in flight, and no gap would begin. */
LAW u32 le_mark(struct le *l, u32 window, const struct le_path *p)
{
	u32 queue_us = le_lost_us(l), to;
	bool low;

	if (l->stage == LE_CUT)
		return window;
	if (l->stage == LE_SMALL) {
		le_pair_marked(l, p);
		return 1;
	}
	if (l->stage == LE_JUDGE) {
		le_others(l, p);
		return LE_LEAST;
	}
	l->marked = 1;
	le_learn_buffer(l, le_units(queue_us), true, p);
	to = le_drained(l, le_q8(window), queue_us, 0, p) >> LE_Q8_SHIFT;
	low = law_forget(l->small_buffer || queue_us < p->threshold_us);
	to = law_min(to, window - law_max(window / (low ? 2 : 8), 1));
	to = law_max(to, LE_LEAST);
	le_cut(l, le_q8(to), p);
	return to;
}

#endif
