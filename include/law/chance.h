/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Is a loss chance? Westwood's answer to a loss (law/westwood.h) takes hardly anything where
 * there is no queue, as on a path that loses packets at random. But a policer, and a buffer
 * of three packets, also lose packets without a queue, and there such a flow takes the link
 * from all others.
 *
 * The two differ in the effect of a smaller window: it does not prevent losses by chance, but
 * it ends congestion. So the packets delivered between two losses are compared.
 *
 *	wait	 losses take half, as reno's; low = EWMA of the packets between losses, gain
 *		 1/4. After two losses with no queue seen between them the window grows by a
 *		 quarter packet per RTT
 *	trial	 losses are forgiven, and the window grows; high = EWMA, gain 1/8, from low
 *	over	 high < low / 2: the losses come from the window. Or: a given number of losses
 *		 in a row came at a window no larger than before, with no queue seen between
 *		 them. Then something holds the window, and chance and a full buffer of a few
 *		 packets look alike
 *	seen	 a queue: an early reduction at 2 packets of this flow in the queue, or at 8
 *		 packets of any flow
 *
 * The first wait lasts 4 losses, each later one four times as long, up to 252; after a trial
 * of 64 losses the next one lasts 4 again.
 *
 * On a path that loses at random both intervals are 1 / p. On a policer beside other flows a
 * trial lasts some 8 losses, and trials become ever rarer. Windows below 8 packets are not
 * judged: beside other flows they do not cause the losses.
 *
 * Ranges: packets delivered are u32 that wrap; intervals are cut to 2^24 packets.
 */
#ifndef CCBPF_LAW_CHANCE_H
#define CCBPF_LAW_CHANCE_H

#include "law/fixed.h"

#define CHANCE_WAIT 4 /* losses */
#define CHANCE_WAIT_MOST 252
#define CHANCE_WAIT_SHIFT 2
#define CHANCE_SLOWLY_SHIFT 2 /* a quarter packet per RTT */
#define CHANCE_LOW 4 /* 1 / gain */
#define CHANCE_HIGH 8
#define CHANCE_LONG 64 /* losses: a trial that lasts so long was right */
#define CHANCE_WINDOW 8 /* packets */
#define CHANCE_QUEUE 2000 /* 1/1000 packet: of this flow */
#define CHANCE_OTHERS 8 /* packets: of all flows */
#define CHANCE_QUIET 2 /* losses with no queue seen between them */
#define CHANCE_INTERVAL_MOST (1u << 24)

struct chance {
	u32 mark; /* packets delivered so far, at the last loss */
	u32 low, high; /* packets between losses: in a wait, in a trial */
	u32 peak; /* packets: the largest window of this trial */
	u8 wait; /* losses until the next trial; 0: a trial is under way */
	u8 next; /* losses that the wait after this trial lasts */
	u8 tried; /* losses of this trial, up to CHANCE_LONG */
	u8 misses; /* losses in a row with no queue between; in a trial: at no larger window */
};

/* A wait begins. */
LAW void chance_wait(struct chance *c, u32 losses)
{
	c->low = 0;
	c->high = 0;
	c->peak = 0;
	c->wait = losses;
	c->next = law_min(losses << CHANCE_WAIT_SHIFT, CHANCE_WAIT_MOST);
	c->tried = 0;
	c->misses = 0;
}

/* @delivered: packets so far */
LAW void chance_init(struct chance *c, u32 delivered)
{
	c->mark = delivered;
	chance_wait(c, CHANCE_WAIT);
}

/* Is the window to grow slowly (CHANCE_SLOWLY_SHIFT)? */
LAW bool chance_slow(const struct chance *c)
{
	return c->wait && c->misses >= CHANCE_QUIET;
}

/* An early reduction. @queue: this flow's packets in the queue, in 1/1000; @others: the packets
 * of all flows. */
LAW void chance_seen(struct chance *c, u32 queue, u32 others)
{
	if (queue >= CHANCE_QUEUE || others >= CHANCE_OTHERS)
		c->misses = 0;
}

/* A loss in a trial; true: the trial goes on. @most: so many losses in a row at a window no
 * larger end it; 0: no number does */
LAW bool chance_try(struct chance *c, u32 interval, u32 window, u32 most)
{
	c->high = law_ewma(c->high, interval, CHANCE_HIGH);
	c->tried = law_min(c->tried + 1, CHANCE_LONG);
	if (window > c->peak) {
		c->peak = window;
		c->misses = 0;
	} else if (c->misses < 255) {
		c->misses++;
	}
	if (c->high >= c->low / 2 && (!most || c->misses < most))
		return true;
	chance_wait(c, c->tried >= CHANCE_LONG ? CHANCE_WAIT : c->next);
	return false;
}

/* A loss; true: it was chance. @delivered: packets so far; @window: packets */
LAW bool chance_lost(struct chance *c, u32 delivered, u32 window, u32 most)
{
	u32 interval = law_min(delivered - c->mark, CHANCE_INTERVAL_MOST);

	c->mark = delivered;
	if (window >= CHANCE_WINDOW && !c->wait)
		return chance_try(c, interval, window, most);
	c->misses = law_min(c->misses + 1, 255);
	if (window < CHANCE_WINDOW)
		return false;
	c->low = c->low ? law_ewma(c->low, interval, CHANCE_LOW) : interval;
	c->high = c->low;
	if (!--c->wait)
		c->misses = 0;
	return false;
}

/* The last loss was none: the packet was late. */
LAW void chance_undone(struct chance *c)
{
	if (c->misses)
		c->misses--;
}

#endif
