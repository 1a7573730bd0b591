/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How much of our own waits in the queue, and may that be? (paper: tcpw-lp 4.2,
 * 4.3)
 *
 *	D      = RTT - RTT_min                          queueing delay
 *	ERE    = w / RTT                                achieved rate
 *	queue  = w - ERE RTT_min = w D / RTT            virtual queue, packets
 *	Q_th   = M (1 - D / D_loss) (1 - D_min / D_max) its threshold
 *	queue > Q_th: w = ERE RTT_min                   early window reduction
 *
 * D_min and D_max are exponential averages of the smallest and the largest D
 * between two reductions, D_loss of the D just before losses. D_min / D_max is the
 * foreground ratio: who is alone empties the queue with each reduction and sees it
 * near 0; who shares it with flows that stay sees a queue that stays, near 1.
 *
 * What the paper leaves open:
 *	RTT	 the smaller one of the last two: one late ACK of a busy host is no
 *		 queue. The ACK of a packet that was alone may be a delayed one and
 *		 counts only where it is smaller.
 *	noise	 a D up to a floor is no queue (at most half of D_loss, or small
 *		 buffers would never be noticed)
 *	Q_th	 has a least value. Else D_min = D_max, which is what a flow sees that
 *		 sends a packet or two between two reductions, would be a state without
 *		 a way out.
 *	D_loss	 does not learn from a loss at a D below D_max: it was chance. Nor does it
 *		 count if it is noise and D_max is not.
 *	unknown	 no loss yet: the first factor is 1; no reduction yet, or D_max = 0:
 *		 the second is 1.
 *
 * RTTs are kept, not D: where RTT_min moves, every D moves with it.
 *
 * Ranges: RTTs are cut to 2^23 us (8.4 s); windows to 2^26 packets where they are
 * multiplied: w D 1000 fits 59 bits. Packets of the queue are in 1/1000, M and Q_th
 * at most 64000; ratios in 1/256, which keep Q_th within 2 M / 256 of the equation.
 */
#ifndef CCBPF_LAW_BACKLOG_H
#define CCBPF_LAW_BACKLOG_H

#include "law/aged.h"

#define BACKLOG_RTT_MAX_US (1u << 23)
#define BACKLOG_WINDOW_MAX (1u << 26)
#define BACKLOG_MILLI 1000 /* of a packet */
#define BACKLOG_ONE 256 /* a ratio of 1, and of q8 windows a packet */
#define BACKLOG_Q8_SHIFT 8

struct backlog {
	struct aged rtt; /* us, smallest: RTT_min */
	u32 half_kius; /* 1024 us: this half of its memory began */
	u32 last_us; /* us: the last sample, 0: none */
	u32 rtt_us; /* us: the RTT that counts, 0: none */
	u32 low_us; /* us: its smallest since the last reduction, 0: none */
	u32 high_us; /* ... and its largest */
	u32 least_us; /* us: RTT_min + D_min, 0: none yet */
	u32 most_us; /* us: RTT_min + D_max */
	u32 loss_us; /* us: RTT_min + D_loss, 0: no loss yet */
	u32 muted_until; /* sequence number: the reaction's RTT ends here */
	u16 foreground; /* 1/256: D_min / D_max */
	u8 timed; /* half_kius is set */
	u8 muted; /* muted_until counts */
};

struct backlog_params {
	u32 most; /* 1/1000 packet: M, 1 ... 64000 */
	u32 least; /* 1/1000 packet: of Q_th */
	u32 averaging; /* reductions, >= 1: gain 1 / averaging */
	u32 memory_s; /* s, 1 ... 2^21: of RTT_min */
	u32 floor_us; /* us: noise */
};

LAW void backlog_init(struct backlog *b)
{
	aged_reset(&b->rtt, AGED_NO_MIN);
	b->half_kius = 0;
	b->last_us = 0;
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

/* us: D_loss, 0 if not known. Where more than noise passes without a loss, losses in
 * the noise were chance. */
LAW u32 backlog_loss_delay(const struct backlog *b,
			   const struct backlog_params *p)
{
	u32 loss_us = backlog_delay(b, b->loss_us);

	if (loss_us <= p->floor_us &&
	    backlog_delay(b, b->most_us) > p->floor_us)
		return 0;
	return loss_us;
}

/* us: how much D is noise */
LAW u32 backlog_noise(const struct backlog *b, const struct backlog_params *p)
{
	u32 loss_us = backlog_loss_delay(b, p);

	return loss_us ? law_min(p->floor_us, loss_us / 2) : p->floor_us;
}

/* part / whole in 1/256, at most 1, where part < 2^24; nothing of nothing is none */
LAW u32 backlog_ratio(u32 part, u32 whole)
{
	if (!part)
		return 0;
	return part >= whole ? BACKLOG_ONE : part * BACKLOG_ONE / whole;
}

/* D_min / D_max anew, after either of them or RTT_min moved */
LAW void backlog_learn_foreground(struct backlog *b)
{
	b->foreground = backlog_ratio(backlog_delay(b, b->least_us),
				      backlog_delay(b, b->most_us));
}

/* --- measure ----------------------------------------------------------- */

LAW void backlog_age(struct backlog *b, u64 now_us, u32 memory_s)
{
	u32 now_kius = now_us >> KIUS_SHIFT;

	if (law_unlikely(!b->timed)) {
		b->timed = 1;
		b->half_kius = now_kius;
	}
	if (law_likely(now_kius - b->half_kius < memory_s * KIUS_PER_S / 2))
		return;
	b->half_kius = now_kius;
	aged_turn(&b->rtt, AGED_NO_MIN);
}

/* RTT_min with this sample */
LAW void backlog_put_base(struct backlog *b, u64 now_us, u32 rtt_us,
			  u32 memory_s)
{
	s32 base_was = aged_min(&b->rtt);

	backlog_age(b, now_us, memory_s);
	aged_put_min(&b->rtt, rtt_us);
	if (law_unlikely(aged_min(&b->rtt) != base_was))
		backlog_learn_foreground(b);
}

/* The smallest and largest since the last reduction. */
LAW void backlog_put_extremes(struct backlog *b, u32 rtt_us)
{
	if (!b->low_us || rtt_us < b->low_us)
		b->low_us = rtt_us;
	if (rtt_us > b->high_us)
		b->high_us = rtt_us;
}

/*
 * One ACK that advanced snd_una in state Open. alone: a single packet was in
 * flight; sparse: ACKs are so rare that each one counts. True: the RTT that counts
 * is of this ACK. With rtt_us = 0 nothing happens.
 */
LAW bool backlog_sample(struct backlog *b, u64 now_us, u32 rtt_us, bool alone,
			bool sparse, const struct backlog_params *p)
{
	u32 last_us = b->last_us;

	if (!rtt_us)
		return false;
	rtt_us = law_min(rtt_us, BACKLOG_RTT_MAX_US);
	backlog_put_base(b, now_us, rtt_us, p->memory_s);
	if (alone && rtt_us >= b->rtt_us)
		return false;
	b->last_us = rtt_us;
	if (!last_us && !sparse && !alone)
		return false;
	b->rtt_us = sparse || alone ? rtt_us : law_min(rtt_us, last_us);
	backlog_put_extremes(b, b->rtt_us);
	return true;
}

/* us: the D of a full buffer, as far as losses told it. A D well above is of another
 * path, or the losses were chance: not known, ~0. */
LAW u32 backlog_full(const struct backlog *b, u32 delay_us,
		     const struct backlog_params *p)
{
	u32 loss_us = backlog_loss_delay(b, p);

	return delay_us > loss_us + loss_us / 8 ? ~0u : loss_us;
}

/* After idle, what was measured before it says nothing of the queue. */
LAW void backlog_restart(struct backlog *b)
{
	b->last_us = 0;
}

/* What was taken for a queue is the path: RTT_min rises to this RTT (us, 1 ...
 * 2^23). Returns by how much. */
LAW u32 backlog_rebase(struct backlog *b, u32 rtt_us)
{
	u32 rise_us = backlog_delay(b, law_min(rtt_us, BACKLOG_RTT_MAX_US));

	if (!backlog_base(b) || !rise_us)
		return 0;
	aged_reset(&b->rtt, (s32)(backlog_base(b) + rise_us));
	backlog_learn_foreground(b);
	return rise_us;
}

/* --- decide ------------------------------------------------------------ */

/* 1/1000 packet: Q_th */
LAW u32 backlog_threshold(const struct backlog *b,
			  const struct backlog_params *p)
{
	u32 near = 0, threshold, loss_us = backlog_loss_delay(b, p);

	if (loss_us)
		near = backlog_ratio(backlog_delay(b, b->rtt_us), loss_us);
	threshold = (u64)p->most * (BACKLOG_ONE - near) *
			    (BACKLOG_ONE - b->foreground) >>
		    (2 * BACKLOG_Q8_SHIFT);
	return law_max(threshold, p->least);
}

/* 1/1000 packet: the virtual queue of a window, rounded down (for people;
 * backlog_exceeds is exact) */
LAW u32 backlog_queue(const struct backlog *b, u32 window)
{
	u64 queue = law_min(window, BACKLOG_WINDOW_MAX);

	if (!b->rtt_us)
		return 0;
	queue = queue * backlog_delay(b, b->rtt_us) * BACKLOG_MILLI / b->rtt_us;
	return queue > ~0u ? ~0u : queue;
}

/* 4.2: does the virtual queue of this window exceed its threshold? */
LAW bool backlog_exceeds(const struct backlog *b, u32 window,
			 const struct backlog_params *p)
{
	u32 delay_us = backlog_delay(b, b->rtt_us);
	u64 queue = law_min(window, BACKLOG_WINDOW_MAX);

	if (delay_us <= backlog_noise(b, p))
		return false;
	queue *= (u64)delay_us * BACKLOG_MILLI;
	if (queue <= (u64)p->least * b->rtt_us)
		return false;
	return queue > (u64)backlog_threshold(b, p) * b->rtt_us;
}

/* us: the D from which on this window's queue exceeds Q_th, as that is now (for
 * people); ~0 if none does */
LAW u32 backlog_limit_us(const struct backlog *b, u32 window,
			 const struct backlog_params *p)
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
LAW u64 backlog_pipe(const struct backlog *b, u64 window)
{
	u32 base_us = backlog_base(b);

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

/* Ends the reaction's RTT when this ACK covers a packet sent after the reaction. To
 * be called on every ACK that may be measured: the comparison never spans half the
 * sequence space. */
LAW void backlog_unmute(struct backlog *b, u32 snd_una)
{
	if (b->muted && law_after(snd_una, b->muted_until))
		b->muted = 0;
}

/* An average of RTTs that begins with its first one. */
LAW u32 backlog_average(u32 v, u32 sample, u32 n)
{
	return v ? law_ewma(v, sample, n) : sample;
}

/* An early reduction: what was seen since the last one joins D_min and D_max. */
LAW void backlog_reduced(struct backlog *b, u32 snd_nxt,
			 const struct backlog_params *p)
{
	backlog_mute(b, snd_nxt);
	if (!b->low_us)
		return;
	b->least_us = backlog_average(b->least_us, b->low_us, p->averaging);
	b->most_us = backlog_average(b->most_us, b->high_us, p->averaging);
	b->low_us = 0;
	b->high_us = 0;
	backlog_learn_foreground(b);
}

/* A loss: the delay just before it joins D_loss, unless the queue is larger than that
 * each time before a reduction: such a loss is chance, and says nothing of a buffer. */
LAW void backlog_lost(struct backlog *b, u32 snd_nxt,
		      const struct backlog_params *p)
{
	backlog_mute(b, snd_nxt);
	if (b->rtt_us && b->rtt_us >= b->most_us)
		b->loss_us =
			backlog_average(b->loss_us, b->rtt_us, p->averaging);
}

#endif
