/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The smallest (or largest) value within a limited time (the memory), kept in two halves.
 *
 *	value = extreme of (this half, the half before)
 *
 * When half the memory has passed, this half becomes the one before and a new
 * one begins. So a value is kept for at least half the memory and at most all
 * of it (TCP-LP paper, VI-A: reset every three minutes). Only time in which values
 * come counts: a pause of any length is one turn.
 */
#ifndef CCBPF_LAW_AGED_H
#define CCBPF_LAW_AGED_H

#include "law/fixed.h"

#define AGED_NO_MIN LAW_S32_MAX
#define AGED_NO_MAX LAW_S32_MIN
#define AGED_CLOCK_SHIFT 16 /* 65.5 ms; u16 of them wrap after 71 minutes */

struct aged {
	s32 now; /* extreme of this half */
	s32 before; /* extreme of the half before */
};

LAW void aged_reset(struct aged *a, s32 none)
{
	a->now = none;
	a->before = none;
}

LAW void aged_turn(struct aged *a, s32 none)
{
	a->before = a->now;
	a->now = none;
}

/* 65.5 ms: the clock that measures the age of a half */
LAW u16 aged_clock(u64 now_us)
{
	return now_us >> AGED_CLOCK_SHIFT;
}

/* Is a half over that began @since units of 65.5 ms ago? @memory_s: both halves, 1 ... 3600 s */
LAW bool aged_over(u16 since, u32 memory_s)
{
	return law_unlikely(since >= (memory_s * KIUS_PER_S / 2) >>
			    (AGED_CLOCK_SHIFT - KIUS_SHIFT));
}

LAW s32 aged_min(const struct aged *a)
{
	return a->now < a->before ? a->now : a->before;
}

LAW s32 aged_max(const struct aged *a)
{
	return a->now > a->before ? a->now : a->before;
}

LAW void aged_put_min(struct aged *a, s32 v)
{
	if (v < a->now)
		a->now = v;
}

LAW void aged_put_max(struct aged *a, s32 v)
{
	if (v > a->now)
		a->now = v;
}

#endif
