/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The state of `le` for one connection, what it reads of a path and of its parameters, and its
 * threshold. law/le.h has the equations and the ranges, bpf/le.bpf.c the reason of each constant,
 * tests/sim/CONSTANTS.md what another value of it would change.
 */
#ifndef CCBPF_LAW_LE_STATE_H
#define CCBPF_LAW_LE_STATE_H

#include "law/aged.h"
#include "law/delay_buffer.h"

#define LE_SHIFT 4 /* 16 us */
#define LE_MOST 0xffff
#define LE_NONE_YET 0xffff /* of `low`: no sample in this block */
#define LE_ONE 256 /* a packet */
#define LE_Q8_SHIFT 8
#define LE_WINDOW_MOST (1u << 24) /* packets */
#define LE_LEAST 2 /* packets: no window is smaller, but for one after the mark of a pair */
#define LE_RETURN 4 /* packets: the window that a return begins with */
#define LE_BLOCK_SHIFT 2 /* a block is a quarter of the window */
#define LE_BLOCK_LEAST 6 /* packets */
#define LE_SAMPLES 3 /* ACKs of a block, at the least */
#define LE_SAMPLES_NOISY 8 /* the same, where the path is noisy */
#define LE_JUDGED 2 /* blocks above T that mean somebody else's queue */
#define LE_GAP_FIRST 8 /* RTTs: the first gap of flows that are no crowd (LE_STEADY) */
#define LE_GAP_START 4 /* ... after the first indication of all */
#define LE_ALONE 24 /* packets: with that many before its first indication a flow was alone */
#define LE_FRESH 31 /* SMALL: no pair has counted yet */
#define LE_GAP_LEAST 3 /* RTTs: the largest gap is no less */
#define LE_AGAIN 3 /* RTTs: from this gap on one empty pair does not suffice */
#define LE_FELL 8 /* back loses 1/8 of what a needless return would have given */
#define LE_START 2 /* packets acknowledged for one that a start or a return adds */
#define LE_FAST 16 /* the same, of the fastest growth otherwise */
#define LE_SLOW 3 /* after a cut: 1/8 packet per RTT */
#define LE_GROWTH_MOST 17
#define LE_BEYOND \
	5 /* quarters of the window of a loss: a flow that grew so far met no limit there */
#define LE_CHANCE_ROUNDS 2 /* a second loss within these is no chance */
#define LE_LOST_MOST 3
#define LE_FLAT_US 800000 /* of each of the pairs that mean a longer path */
#define LE_FLAT_MOST 255
#define LE_NOISE 12 /* eighths of the path's noise: T is no less */
#define LE_NOISY 5 /* eighths of `threshold`: from this noise on a path is noisy */
#define LE_SHORT 2 /* T: a shorter base RTT is short */
#define LE_LITTLE 4 /* `threshold`: smaller buffers are little */
#define LE_TIGHT 2 /* ... and tight */
#define LE_OWN 4 /* a quarter of T above T: the largest queue that the flow's own cuts leave */
#define LE_COUNTED 5 /* packets: a smaller buffer looks full after one round's growth */
#define LE_SEEN_US 500 /* us: a base that is this much above that of the half before is not seen */
#define LE_STEADY 10 /* packets: smaller windows may be those of a crowd */
#define LE_SPACED 6 /* packets: smaller windows do not show the time of a packet */

enum le_stage {
	LE_FREE,
	LE_CUT,
	LE_JUDGE,
	LE_SMALL
};

enum le_verdict {
	LE_GO_ON,
	LE_DRAIN, /* the first indication */
	LE_GROW, /* judged: the queue was our own */
	LE_YIELD, /* judged: it is somebody else's */
	LE_WAIT, /* a pair met a queue */
	LE_BACK, /* pairs met none */
};

struct le {
	u32 back_q8; /* 1/256 packet: the window to return to */
	u32 then_q8; /* 1/256 packet: `then` of law/le.h; 0: not known */
	u16 low; /* 16 us: smallest queueing delay of this block */
	u16 q; /* 16 us: ... of the last one */
	u16 cut_q; /* 16 us: q of the last cut; SMALL: first delay of those that stand still */
	u16 last; /* 16 us: queueing delay of the last ACK */
	u16 most; /* 16 us: largest delay of two ACKs in a row, or of a block */
	u16 block; /* packets acknowledged in this block; in a repair: what was sent again before it
		    * (le_seems_alone()) */
	u8 count; /* FREE: rounds without a queue; JUDGE: blocks above T; SMALL: gap, RTTs */
	u8 samples : 4; /* ACKs of this block, up to LE_SAMPLES_NOISY */
	u8 stage : 2; /* enum le_stage */
	u8 small_buffer : 1; /* losses came with the largest queue */
	u8 marked : 1; /* a router of this path marks */
	u8 growth : 5; /* 2^(growth - LE_SLOW) packets per RTT; SMALL: pairs without a queue */
	u8 fits : 1; /* a block with q >= T has passed */
	u8 bare : 1; /* a loss before any queue of T was seen */
	u8 of_loss : 1; /* the last cut was for a loss */
	u8 rounds : 2; /* since the last loss, up to LE_LOST_MOST */
	u8 was_small : 1; /* small_buffer before the last loss */
	u8 was_bare : 1; /* bare before it */
	u8 was_first : 1; /* there was no back before it */
	/* These bits are of bpf/le.bpf.c; the law does not read them. */
	u8 paced : 1; /* it switched the kernel's pacing on */
	u8 open : 1; /* init() has run: the kernel calls ssthresh() before, when it has to send
		      * its SYN again */
	u8 undone : 1; /* the kernel may raise ssthresh over a cut */
};

/* An ACK */
struct le_ack {
	u32 queue_us; /* us: its queueing delay */
	u32 acked; /* packets */
	u32 flying; /* packets that it leaves */
	bool hole; /* some of these have arrived, but one before them has not */
};

/* What the law reads of a path and of the parameters. */
struct le_path {
	u32 base_us; /* us: RTT without a queue, 0: not known */
	bool base_seen; /* base_us was seen in this half of its memory */
	u32 threshold_us; /* us: T of a buffer that is not small */
	u32 threshold_min_us; /* us: the least T of a small one */
	u32 noise_us; /* us: of the path */
	u32 noisy_us; /* us: above it blocks have LE_SAMPLES_NOISY ACKs */
	u32 stood_us; /* us: the path stood still while these packets were on it (law/silence.h) */
	u32 packet_us; /* us: time of a packet */
	u32 gap_max; /* RTT */
	u32 gap_share; /* packets RTT: the largest gap is this, divided by back */
	u32 quiet_rounds; /* without a queue: growth accelerates */
};

LAW u32 le_us(u16 units)
{
	return (u32)units << LE_SHIFT;
}

LAW u16 le_units(u32 us)
{
	return law_min(us >> LE_SHIFT, LE_MOST - 1);
}

/* 16 us: what part of this queueing delay must be a queue */
LAW u16 le_sure(u16 queue, const struct le_path *p)
{
	return le_units(delay_certain(le_us(queue), p->stood_us));
}

/* A new block begins. */
LAW void le_block(struct le *l)
{
	l->low = LE_NONE_YET;
	l->samples = 0;
	l->block = 0;
}

LAW void le_begin(struct le *l)
{
	l->back_q8 = 0;
	l->then_q8 = 0;
	l->q = 0;
	l->cut_q = 0;
	l->last = 0;
	l->most = 0;
	l->count = 0;
	l->stage = LE_FREE;
	l->small_buffer = 0;
	l->marked = 0;
	l->bare = 0;
	l->of_loss = 0;
	l->growth = LE_SLOW;
	l->fits = 0;
	l->rounds = LE_LOST_MOST;
	l->was_small = 0;
	l->was_bare = 0;
	l->was_first = 0;
	le_block(l);
}

LAW u32 le_q8(u32 packets)
{
	return law_min(packets, LE_WINDOW_MOST - 1) << LE_Q8_SHIFT;
}

/* Has the flow had windows that are larger than those of a crowd? */
LAW bool le_steady(const struct le *l, u32 window)
{
	return window >= LE_STEADY || l->back_q8 >= LE_STEADY * LE_ONE;
}

/* Is the buffer known, and smaller than so many times `threshold`? */
LAW bool le_buffer_below(const struct le *l, u32 times, const struct le_path *p)
{
	return l->small_buffer && le_us(l->most) < times * p->threshold_us;
}

/* us: what of so much noise counts. In a small buffer more of it would hide the queue. */
LAW u32 le_noise(const struct le *l, u32 noise_us)
{
	return l->small_buffer ? law_min(noise_us, le_us(l->most) / 4) : noise_us;
}

/* us: T of a path without noise */
LAW u32 le_quiet_threshold(const struct le *l, const struct le_path *p)
{
	u32 t_us = p->threshold_us;

	if (l->small_buffer)
		t_us = law_min(t_us, law_max(le_us(l->most) / 2, p->threshold_min_us));
	return law_max(t_us, p->packet_us + p->packet_us / 2);
}

/* us: T */
LAW u32 le_threshold(const struct le *l, const struct le_path *p)
{
	u32 noise_us = l->stage == LE_SMALL ? p->noise_us : p->noise_us * LE_NOISE / 8;

	return law_forget(law_max(le_quiet_threshold(l, p), le_noise(l, noise_us)));
}

/* The base moved: its buffer is not known any more, nor whether a router marks, nor whether a queue
 * of T passes. */
LAW void le_moved(struct le *l)
{
	l->most = 0;
	l->small_buffer = 0;
	l->marked = 0;
	l->fits = 0;
	l->bare = 0;
}

/* A loss: le_needless() will have to know what was known before it. */
LAW void le_before_loss(struct le *l)
{
	l->was_small = l->small_buffer;
	l->was_bare = l->bare;
	l->was_first = law_forget(!l->back_q8);
}

/* The last loss was none: the packet was late. What was learned from that loss is forgotten, and
 * the flow is where it was. */
LAW void le_needless(struct le *l)
{
	l->small_buffer = l->was_small;
	l->bare = l->was_bare;
	if (l->was_first)
		l->back_q8 = 0;
	l->stage = LE_FREE;
	l->then_q8 = 0;
	l->growth = LE_SLOW;
	l->count = 0;
	le_block(l);
}

/* Is the base RTT of this half of its memory (us) that of the half before? Else an empty queue is
 * still to be seen. */
LAW bool le_base_seen(s32 now_us, s32 before_us)
{
	return before_us == AGED_NO_MIN ? now_us != AGED_NO_MIN : now_us - LE_SEEN_US <= before_us;
}

#endif
