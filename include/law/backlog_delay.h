/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The delays of TCPW-LP: which RTT counts, its queueing delay D = RTT - RTT_min, and
 * what part of a D is noise (paper: tcpw-lp 4.2, 4.3). law/backlog.h compares them with
 * the threshold.
 *
 * RTTs are kept, not D: where RTT_min moves, every D moves with it.
 *
 * What the paper leaves open:
 *
 *  1. The RTT that counts is the smallest one of a block, which is a quarter of the
 *     window, and of the block before it. So jitter, the flow's bursts and late ACKs do not
 *     count. The ACK of a packet that was alone may be a delayed one; it counts only where
 *     it is smaller.
 *  2. A D is no queue up to the largest of three limits: a floor, the time of a packet
 *     (law/spacing.h), and three quarters of the path's noise (law/noise.h). Those three quarters
 *     are subtracted from a larger D, and from D_min and D_max; a reduction leaves the window
 *     room for them.
 *     The floor and the time of a packet are at most half of D_loss, the noise at most
 *     an eighth, or small buffers would never be noticed.
 *  3. D_loss does not count if it is noise and D_max is not.
 *  4. D_min / D_max is 0 before the first reduction, and where D_max = 0.
 *
 * Ranges: RTTs are cut to 2^23 us (8.4 s); ratios are in 1/256.
 */
#ifndef CCBPF_LAW_BACKLOG_DELAY_H
#define CCBPF_LAW_BACKLOG_DELAY_H

#include "law/aged.h"

#define BACKLOG_RTT_MAX_US (1u << 23)
#define BACKLOG_ONE 256 /* a ratio of 1, and of q8 windows a packet */
#define BACKLOG_Q8_SHIFT 8
#define BACKLOG_BLOCK 8 /* ACKs: a quarter of the window, with two packets for each ACK */
#define BACKLOG_BLOCK_MOST 63 /* samples */

struct backlog {
	struct aged rtt; /* us, smallest: RTT_min */
	u32 block_us; /* us: the smallest RTT of this block, 0: none */
	u32 before_us; /* us: ... and of the one before */
	u32 rtt_us; /* us: the RTT that counts, 0: none */
	u32 low_us; /* us: its smallest since the last reduction, 0: none */
	u32 high_us; /* ... and its largest */
	u32 least_us; /* us: RTT_min + D_min, 0: none yet */
	u32 most_us; /* us: RTT_min + D_max */
	u32 loss_us; /* us: RTT_min + D_loss, 0: no loss yet */
	u32 muted_until; /* sequence number: the reaction's RTT ends here */
	u16 half; /* 65.5 ms: this half of the memory of RTT_min began */
	u8 foreground; /* 1/256: D_min / D_max, 255 at the most */
	u8 timed : 1; /* half is set */
	u8 muted : 1; /* muted_until counts */
	u8 samples : 6; /* of this block */
};

struct backlog_params {
	u32 most; /* 1/1000 packet: M, 1 ... 64000 */
	u32 least; /* 1/1000 packet: of Q_th */
	u32 averaging; /* reductions, >= 1: gain 1 / averaging */
	u32 memory_s; /* s, 1 ... 3600: of RTT_min */
	u32 floor_us; /* us: noise, at the least */
	u32 noise_us; /* us: of the path (law/noise.h) */
	u32 own_us; /* us: the wait of a pair's second packet for the first (law/spacing.h) */
};

LAW void backlog_init(struct backlog *b)
{
	aged_reset(&b->rtt, AGED_NO_MIN);
	b->half = 0;
	b->block_us = 0;
	b->before_us = 0;
	b->rtt_us = 0;
	b->low_us = 0;
	b->high_us = 0;
	b->least_us = 0;
	b->most_us = 0;
	b->loss_us = 0;
	b->muted_until = 0;
	b->foreground = 0;
	b->timed = 0;
	b->muted = 0;
	b->samples = 0;
}

/* us: RTT_min, 0 if none */
LAW u32 backlog_base(const struct backlog *b)
{
	s32 base_us = aged_min(&b->rtt);

	return base_us == AGED_NO_MIN ? 0 : base_us;
}

/* us: the queueing delay D of an RTT */
LAW u32 backlog_delay(const struct backlog *b, u32 rtt_us)
{
	u32 base_us = backlog_base(b);

	return rtt_us > base_us ? rtt_us - base_us : 0;
}

/* us: D_loss, 0 if not known. Where a D above noise passes without a loss, losses within the
 * noise were chance. */
LAW u32 backlog_loss_delay(const struct backlog *b, const struct backlog_params *p)
{
	u32 loss_us = backlog_delay(b, b->loss_us);

	if (loss_us <= p->floor_us && backlog_delay(b, b->most_us) > p->floor_us)
		return 0;
	return loss_us;
}

/* us: what part of a D may be noise: three quarters of the path's, as the smallest RTT of a
 * block is steadier than the path. At most an eighth of D_loss. */
LAW u32 backlog_steady(const struct backlog *b, const struct backlog_params *p)
{
	u32 loss_us = backlog_loss_delay(b, p), noise_us = p->noise_us * 3 / 4;

	return loss_us ? law_min(noise_us, loss_us / 8) : noise_us;
}

/* us: a D up to this is no queue */
LAW u32 backlog_noise(const struct backlog *b, const struct backlog_params *p)
{
	u32 loss_us = backlog_loss_delay(b, p);
	u32 floor_us = law_max(p->floor_us, p->own_us);

	if (loss_us)
		floor_us = law_min(floor_us, loss_us / 2);
	return law_max(floor_us, backlog_steady(b, p));
}

/* us: the D of the RTT that counts, without what may be noise. What the flow's own pairs cause
 * is part of it, and of RTT_min. */
LAW u32 backlog_queueing(const struct backlog *b, const struct backlog_params *p)
{
	u32 delay_us = backlog_delay(b, b->rtt_us);
	u32 steady_us = backlog_steady(b, p);

	if (delay_us <= backlog_noise(b, p))
		return 0;
	if (steady_us <= p->own_us)
		return delay_us;
	steady_us -= p->own_us;
	return delay_us > steady_us ? delay_us - steady_us : 0;
}

/* part / whole in 1/256, at most 1, where part < 2^24; 0 of 0 is 0 */
LAW u32 backlog_ratio(u32 part, u32 whole)
{
	if (!part)
		return 0;
	return part >= whole ? BACKLOG_ONE : part * BACKLOG_ONE / whole;
}

/* us: an average delay (kept as an RTT) without the part that may be noise */
LAW u32 backlog_clear(const struct backlog *b, u32 rtt_us, u32 steady_us)
{
	u32 delay_us = backlog_delay(b, rtt_us);

	return delay_us > steady_us ? delay_us - steady_us : 0;
}

/* Compute D_min / D_max anew, after either of them or RTT_min moved; both without noise */
LAW void backlog_learn_foreground(struct backlog *b, const struct backlog_params *p)
{
	u32 steady_us = backlog_steady(b, p);
	u32 ratio = backlog_ratio(backlog_clear(b, b->least_us, steady_us),
				  backlog_clear(b, b->most_us, steady_us));

	b->foreground = law_min(ratio, BACKLOG_ONE - 1);
}

/* --- measure ----------------------------------------------------------- */

LAW void backlog_age(struct backlog *b, u64 now_us, u32 memory_s)
{
	u16 now = aged_clock(now_us), since = now - b->half;

	if (law_unlikely(!b->timed)) {
		b->timed = 1;
		b->half = now;
		since = 0;
	}
	if (!aged_over(since, memory_s))
		return;
	b->half = now;
	aged_turn(&b->rtt, AGED_NO_MIN);
}

/* RTT_min with this sample */
LAW void backlog_put_base(struct backlog *b, u64 now_us, u32 rtt_us, const struct backlog_params *p)
{
	s32 base_was = aged_min(&b->rtt);

	backlog_age(b, now_us, p->memory_s);
	aged_put_min(&b->rtt, rtt_us);
	if (law_unlikely(aged_min(&b->rtt) != base_was))
		backlog_learn_foreground(b, p);
}

/* The smallest and largest since the last reduction. */
LAW void backlog_put_extremes(struct backlog *b, u32 rtt_us)
{
	if (!b->low_us || rtt_us < b->low_us)
		b->low_us = rtt_us;
	if (rtt_us > b->high_us)
		b->high_us = rtt_us;
}

/* A sample joins the block; returns the RTT that counts, us. A block lasts for a quarter of the
 * window (in packets; an ACK covers two). */
LAW u32 backlog_block(struct backlog *b, u32 rtt_us, u32 window)
{
	u32 size = law_clamp(window / BACKLOG_BLOCK, 1, BACKLOG_BLOCK_MOST);

	if (b->samples >= size || !b->block_us) {
		b->before_us = b->block_us ? b->block_us : rtt_us;
		b->block_us = rtt_us;
		b->samples = 0;
	}
	b->samples++;
	b->block_us = law_min(b->block_us, rtt_us);
	return law_min(b->block_us, b->before_us);
}

/*
 * One ACK that advanced snd_una in state Open or Disorder. window: packets; alone: a single
 * packet was in flight; sparse: ACKs are so rare that each one counts. True: the RTT that
 * counts was measured by this ACK. With rtt_us = 0 nothing happens.
 */
LAW bool backlog_sample(struct backlog *b, u64 now_us, u32 rtt_us, u32 window, bool alone,
			bool sparse, const struct backlog_params *p)
{
	bool first = !b->block_us;

	if (!rtt_us)
		return false;
	rtt_us = law_min(rtt_us, BACKLOG_RTT_MAX_US);
	backlog_put_base(b, now_us, rtt_us, p);
	if (alone && rtt_us >= b->rtt_us)
		return false;
	if (sparse || alone) {
		b->block_us = b->before_us = b->rtt_us = rtt_us;
		b->samples = 0;
	} else {
		rtt_us = backlog_block(b, rtt_us, window);
		if (first)
			return false;
		b->rtt_us = rtt_us;
	}
	backlog_put_extremes(b, b->rtt_us);
	return true;
}

/* After an idle time: what was measured before says nothing of the queue. */
LAW void backlog_restart(struct backlog *b)
{
	b->block_us = 0;
}

/* A delay that was taken for a queue is that of a longer path: RTT_min rises to this RTT (us,
 * 1 ... 2^23). Returns by how much. */
LAW u32 backlog_rebase(struct backlog *b, u32 rtt_us, const struct backlog_params *p)
{
	u32 rise_us = backlog_delay(b, law_min(rtt_us, BACKLOG_RTT_MAX_US));

	if (!backlog_base(b) || !rise_us)
		return 0;
	aged_reset(&b->rtt, (s32)(backlog_base(b) + rise_us));
	backlog_learn_foreground(b, p);
	return rise_us;
}

#endif
