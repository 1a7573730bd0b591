/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The virtual queue of TCPW-LP and its threshold: how many packets of this flow wait in
 * the queue, and how many may? (paper: tcpw-lp 4.2, 4.3)
 *
 *	D      = RTT - RTT_min                          queueing delay
 *	ERE    = w / RTT                                achieved rate
 *	queue  = w - ERE RTT_min = w D / RTT            virtual queue, packets
 *	Q_th   = M (1 - D / D_loss) (1 - D_min / D_max) its threshold
 *	queue > Q_th: w = ERE RTT_min                   early window reduction
 *
 * D_min and D_max are exponential averages of the smallest and the largest D between
 * two reductions, D_loss is one of the D just before losses. D_min / D_max is the
 * foreground ratio: a flow that is alone empties the queue with each reduction and sees
 * a ratio near 0; a flow that shares the queue with flows that stay sees a standing
 * queue and a ratio near 1.
 *
 * RTT_min, the RTT that counts, its D and the noise in it: law/backlog_delay.h.
 *
 * What the paper leaves open:
 *
 *  1. Q_th has a least value. Otherwise a flow that sends only a packet or two between two
 *     reductions would measure D_min = D_max, so Q_th = 0, and would never leave that state.
 *  2. D_loss is taken from the last RTT before a loss. It does not learn from a loss at
 *     a D below D_max, it does not become smaller by a loss that was taken for chance,
 *     and it falls four times slower than it rises. Otherwise random losses would make
 *     it the delay of an empty queue, and Q_th would be 0.
 *  3. Before the first loss the first factor is 1. Before the first reduction, and
 *     where D_max = 0, the second factor is 1.
 *
 * Ranges: windows are cut to 2^26 packets where they are multiplied, so w D 1000 fits 59
 * bits. Packets of the queue are in 1/1000, M and Q_th are at most 64000; ratios in
 * 1/256 keep Q_th within 2 M / 256 of the equation.
 */
#ifndef CCBPF_LAW_BACKLOG_H
#define CCBPF_LAW_BACKLOG_H

#include "law/backlog_delay.h"

#define BACKLOG_WINDOW_MAX (1u << 26)
#define BACKLOG_MILLI 1000 /* of a packet */
#define BACKLOG_FALL 4 /* D_loss falls so many times slower than it rises */
#define BACKLOG_OVERFLOW 500 /* 1/1000 packet: this flow's least part of a full buffer */

/* --- decide ------------------------------------------------------------ */

/* 1/1000 packet: Q_th */
LAW u32 backlog_threshold(const struct backlog *b, const struct backlog_params *p)
{
	u32 near = 0, threshold, loss_us = backlog_loss_delay(b, p);

	if (loss_us)
		near = backlog_ratio(backlog_delay(b, b->rtt_us), loss_us);
	threshold = (u64)p->most * (BACKLOG_ONE - near) * (BACKLOG_ONE - b->foreground) >>
		    (2 * BACKLOG_Q8_SHIFT);
	return law_max(threshold, p->least);
}

/* 1/1000 packet: the virtual queue of a window, rounded down (to be shown;
 * backlog_exceeds() is exact) */
LAW u32 backlog_queue(const struct backlog *b, u32 window)
{
	u64 queue = law_min(window, BACKLOG_WINDOW_MAX);

	if (!b->rtt_us)
		return 0;
	queue = queue * backlog_delay(b, b->rtt_us) * BACKLOG_MILLI / b->rtt_us;
	return queue > ~0u ? ~0u : queue;
}

/* 4.2: does the virtual queue of this window exceed its threshold? */
LAW bool backlog_exceeds(const struct backlog *b, u32 window, const struct backlog_params *p)
{
	u32 delay_us = backlog_queueing(b, p);
	u64 queue = law_min(window, BACKLOG_WINDOW_MAX);

	queue *= (u64)delay_us * BACKLOG_MILLI;
	if (queue <= (u64)p->least * b->rtt_us)
		return false;
	return queue > (u64)backlog_threshold(b, p) * b->rtt_us;
}

/* 1/1000 packet: the virtual queue of a window at an RTT (us, 0: none), without noise and
 * without what the packet before caused. */
LAW u32 backlog_visible(const struct backlog *b, u32 rtt_us, u32 window,
			const struct backlog_params *p)
{
	u32 delay_us = backlog_delay(b, law_min(rtt_us, BACKLOG_RTT_MAX_US));
	u32 own_us = law_max(p->own_us, p->noise_us);
	u64 queue = law_min(window, BACKLOG_WINDOW_MAX);

	if (delay_us <= own_us)
		return 0;
	queue = queue * (delay_us - own_us) * BACKLOG_MILLI / rtt_us;
	return queue > ~0u ? ~0u : queue;
}

/* Did a full buffer lose the packet? rtt_us: the last RTT before the loss, 0: none */
LAW bool backlog_overflows(const struct backlog *b, u32 rtt_us, u32 window,
			   const struct backlog_params *p)
{
	return backlog_delay(b, rtt_us) >= backlog_loss_delay(b, p) / 2 &&
	       backlog_visible(b, rtt_us, window, p) >= BACKLOG_OVERFLOW;
}

/* us: the D from which on this window's queue exceeds the present Q_th (to be shown);
 * ~0 if no D does */
LAW u32 backlog_limit_us(const struct backlog *b, u32 window, const struct backlog_params *p)
{
	u64 all = (u64)law_min(window, BACKLOG_WINDOW_MAX) * BACKLOG_MILLI;
	u32 threshold = backlog_threshold(b, p);
	u64 limit_us;

	if (all <= threshold)
		return ~0u;
	limit_us = (u64)threshold * backlog_base(b) / (all - threshold);
	return limit_us > ~0u ? ~0u : law_max(limit_us, backlog_noise(b, p));
}

/* --- act --------------------------------------------------------------- */

/* ERE RTT_min of a window, in the same unit: a q8 window (1/256 packet) or packets,
 * below 2^40 */
LAW u64 backlog_pipe(const struct backlog *b, u64 window, const struct backlog_params *p)
{
	u32 base_us = backlog_base(b) + backlog_steady(b, p);

	if (!b->rtt_us || base_us >= b->rtt_us)
		return window;
	return window * base_us / b->rtt_us;
}

/* A reaction happened (to anything): mute the next RTT. */
LAW void backlog_mute(struct backlog *b, u32 snd_nxt)
{
	b->muted_until = snd_nxt;
	b->muted = 1;
}

/* End the reaction's RTT when this ACK covers a packet that was sent after the reaction. To
 * be called on every ACK that may be measured, so that the comparison never spans half of
 * the sequence space. */
LAW void backlog_unmute(struct backlog *b, u32 snd_una)
{
	if (b->muted && law_after(snd_una, b->muted_until))
		b->muted = 0;
}

/* An average of RTTs; the first sample begins it. */
LAW u32 backlog_average(u32 v, u32 sample, u32 n)
{
	return v ? law_ewma(v, sample, n) : sample;
}

/* An early reduction: what was seen since the last one joins D_min and D_max. */
LAW void backlog_reduced(struct backlog *b, u32 snd_nxt, const struct backlog_params *p)
{
	backlog_mute(b, snd_nxt);
	if (!b->low_us)
		return;
	b->least_us = backlog_average(b->least_us, b->low_us, p->averaging);
	b->most_us = backlog_average(b->most_us, b->high_us, p->averaging);
	b->low_us = 0;
	b->high_us = 0;
	backlog_learn_foreground(b, p);
}

/* A loss: the delay just before it (rtt_us, 0: not known) joins D_loss, unless the queue before
 * a reduction usually is larger: such a loss is chance and says nothing of a buffer. A loss
 * that was taken for chance never makes D_loss smaller. */
LAW void backlog_lost(struct backlog *b, u32 rtt_us, bool chance, const struct backlog_params *p)
{
	u32 averaging = p->averaging;

	rtt_us = law_min(rtt_us, BACKLOG_RTT_MAX_US);
	if (rtt_us < b->loss_us)
		averaging *= BACKLOG_FALL;
	if (rtt_us && rtt_us >= b->most_us && (!chance || rtt_us > b->loss_us))
		b->loss_us = backlog_average(b->loss_us, rtt_us, averaging);
}

#endif
