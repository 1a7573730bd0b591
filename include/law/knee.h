/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The available bandwidth A by one chirp (NF-TCP paper, 3.2, eq. 5).
 *
 * Gap i of a chirp has the rate r_i = min SF^i (law/chirp.h). Up to A the packets find
 * the queue as it was; each gap above A adds burst (1 - A / r_i) packets to the queue.
 * Two signals show where that begins:
 *
 *	delay	A = r_k		 k: the step from which the delay rises until the chirp ends
 *	ECE	A = r_(j - 1 - m)	 j: the first step of the marks that last until the chirp ends
 *
 *	BW_est	= their mean, or the only one of them that shows anything
 *		= max		 where neither shows anything: A is at least that
 *		= 0		 where it is below min
 *
 * Eq. 5 prints MinRate SF_(N-1) and SF_(N-k). They are read as the rates of eq. 4 and eq. 3: max
 * and r_k.
 *
 * Deviations from the paper:
 *
 *  1. The paper's k is one step, "the first with a mark and/or a delay above all others".
 *     Delay and marks begin at different steps: the delay rises with the first gap above
 *     A, the router marks when more than one packet waits and another one is being sent.
 *     That takes m gaps more, in which the excess adds up to three packets
 *     (knee_pile_steps(): 7 at SF = 1.2).
 *  2. Bursts of other traffic look like a knee. A rise that falls below 1 / F of its
 *     height (F = 1.5, pathChirp's excursion: Ribeiro et al., PAM 2003) before the chirp
 *     ends was a burst; so were marks with an unmarked step behind them. A rise within the
 *     noise is no rise.
 *  3. The average of the estimates (law/range.h) needs values below min as well, or it
 *     would be too high on a busy path: raw_kbps is not cut to 0.
 *
 * Chirps are also answered by receivers that lie. Whatever comes back, raw_kbps is within
 * 0 ... max.
 */
#ifndef CCBPF_LAW_KNEE_H
#define CCBPF_LAW_KNEE_H

#include "law/chirp.h"

#define KNEE_FALL_NUM 3 /* pathChirp's F = 3 / 2 */
#define KNEE_FALL_DEN 2
#define KNEE_PILE 3 /* packets at the bottleneck when the router marks */
#define KNEE_DELAY_MAX_US (1u << 21) /* larger differences count as this */

enum knee_verdict {
	KNEE_NONE, /* the chirp says nothing */
	KNEE_BELOW, /* A is less than the chirp's first rate */
	KNEE_WITHIN,
	KNEE_ABOVE, /* no trace of a queue: A is at least the chirp's last rate */
};

enum knee_signal { /* what shows it; bits */
	KNEE_BY_ECE = 1,
	KNEE_BY_DELAY = 2,
};

/* What was sent, and what came back. Sample i is of the first packet of step i. */
struct knee_chirp {
	u32 min_kbps; /* as it was sent, at least 1 */
	u32 spread; /* permille */
	u32 bytes; /* of a step on the line */
	u32 noise_us; /* a rise of the delay up to this is noise */
	u16 sampled; /* bit i: there is a sample of step i */
	u16 ece; /* bit i: the ACK of step i carried ECE */
	u8 steps; /* sent */
	u8 burst; /* packets per step */
	u8 ecn; /* ECN was agreed: no ECE says something */
	u8 reserved;
	u32 delay_us[CHIRP_MOST]; /* RTT or one-way; only differences count */
};

struct knee_estimate {
	u32 kbps; /* eq. 5 */
	u32 raw_kbps; /* the same without eq. 5's 0, for the average */
	u8 verdict; /* enum knee_verdict */
	u8 signal; /* enum knee_signal, bits */
	u8 knee; /* the first step that shows the queue, from 0; else steps */
	u8 by_ece; /* j, else steps */
	u8 by_delay; /* k, else steps */
	u8 reserved[3];
	u32 highest_us; /* above the chirp's smallest delay */
};

LAW bool knee_has(u32 bits, u32 i)
{
	return bits >> i & 1;
}

/* Steps from the one at which the rate passes A until the queue has so many packets: the smallest
 * m with burst sum(1 - SF^-k, k = 1 ... m) >= packets; CHIRP_MOST if there is none */
LAW u32 knee_pile_steps(u32 spread_permille, u32 packets, u32 burst)
{
	u64 share = 1ull << CHIRP_SHARE_SHIFT, sum = 0;
	u32 m;

	spread_permille = chirp_spread(spread_permille);
	for (m = 1; m < CHIRP_MOST; m++) {
		share = share * 1000 / spread_permille;
		sum += (1ull << CHIRP_SHARE_SHIFT) - share;
		if (sum * burst >= (u64)packets << CHIRP_SHARE_SHIFT)
			break;
	}
	return m;
}

/* Have three quarters of the samples come back, and the last step's? */
LAW bool knee_complete(const struct knee_chirp *c)
{
	u32 n = law_hide(chirp_steps(c->steps)), have = 0;

	for (u32 i = 0; i < CHIRP_MOST && i < n; i++)
		have += knee_has(c->sampled, i);
	return have * 4 >= n * 3 && have >= CHIRP_LEAST && knee_has(c->sampled, n - 1) &&
	       c->min_kbps && c->bytes;
}

/* us: the smallest delay of the chirp */
LAW u32 knee_base_us(const struct knee_chirp *c)
{
	u32 n = law_hide(chirp_steps(c->steps)), base_us = ~0u;

	for (u32 i = 0; i < CHIRP_MOST && i < n; i++)
		if (knee_has(c->sampled, i))
			base_us = law_min(base_us, c->delay_us[i]);
	return base_us;
}

/* us above the base; a step without a sample has the rise of the step before */
LAW u32 knee_rise_us(const struct knee_chirp *c, u32 i, u32 base_us, u32 before_us)
{
	if (!knee_has(c->sampled, i))
		return before_us;
	return law_forget(law_min(c->delay_us[i] - base_us, KNEE_DELAY_MAX_US));
}

/* The first step of the run of marks that lasts until the end; n: there is none. */
LAW u32 knee_by_ece(const struct knee_chirp *c)
{
	u32 n = law_hide(chirp_steps(c->steps)), knee = n;

	if (!c->ecn)
		return n;
	for (u32 i = 0; i < CHIRP_MOST && i < n; i++) {
		if (!knee_has(c->sampled, i))
			continue;
		if (!knee_has(c->ece, i))
			knee = n;
		else if (knee == n)
			knee = law_forget(i);
	}
	return knee;
}

/* The step before the rise that lasts until the end; n: there is none. */
LAW u32 knee_by_delay(const struct knee_chirp *c, u32 *highest_us)
{
	u32 n = law_hide(chirp_steps(c->steps)), base_us = knee_base_us(c), knee = n;
	u32 from_us = 0, height_us = 0, q_us = knee_rise_us(c, 0, base_us, 0);

	*highest_us = q_us;
	for (u32 i = 1; i < CHIRP_MOST && i < n; i++) {
		u32 before_us = q_us;

		q_us = knee_rise_us(c, i, base_us, before_us);
		*highest_us = law_forget(law_max(*highest_us, q_us));
		if (knee == n) {
			if (q_us <= before_us)
				continue;
			knee = law_forget(i - 1);
			from_us = before_us;
			height_us = 0;
		}
		if (q_us > from_us && (q_us - from_us) * KNEE_FALL_NUM >= height_us * KNEE_FALL_DEN)
			height_us = law_forget(law_max(height_us, q_us - from_us));
		else
			knee = n; /* the excursion is over */
	}
	return height_us > c->noise_us ? knee : n;
}

/* kbit/s of the gap that is @down gaps before step @knee. Before gap 0 the series of rates is
 * continued downwards. */
LAW u32 knee_rate_kbps(const struct knee_chirp *c, u32 knee, u32 down)
{
	u64 rate_q8 = (u64)c->min_kbps << CHIRP_RATE_SHIFT;

	if (knee >= down)
		return chirp_rate_kbps(c->min_kbps, c->spread, knee - down);
	for (u32 i = 0; i <= CHIRP_MOST && i + knee < down; i++)
		rate_q8 = law_forget(rate_q8 * 1000 / chirp_spread(c->spread));
	return rate_q8 >> CHIRP_RATE_SHIFT;
}

/* kbit/s by the signals that show a knee; max_kbps if none does */
LAW u32 knee_kbps(const struct knee_chirp *c, const struct knee_estimate *e, u32 max_kbps)
{
	u32 m = knee_pile_steps(c->spread, KNEE_PILE, c->burst);
	u32 ece_kbps = knee_rate_kbps(c, e->by_ece, 1 + m);
	u32 delay_kbps = knee_rate_kbps(c, e->by_delay, 0);
	u64 kbps = max_kbps;

	if (e->signal == (KNEE_BY_ECE | KNEE_BY_DELAY))
		kbps = ((u64)ece_kbps + delay_kbps) / 2;
	else if (e->signal & KNEE_BY_ECE)
		kbps = ece_kbps;
	else if (e->signal & KNEE_BY_DELAY)
		kbps = delay_kbps;
	return law_forget(kbps < max_kbps ? kbps : max_kbps);
}

LAW void knee_estimate(const struct knee_chirp *c, struct knee_estimate *e)
{
	u32 n = law_forget(chirp_steps(c->steps));
	u32 max_kbps = law_forget(chirp_max_kbps(c->min_kbps, c->spread, c->steps));

	*e = (struct knee_estimate){ .verdict = KNEE_NONE, .knee = n };
	if (!knee_complete(c))
		return;
	e->by_ece = law_forget(knee_by_ece(c));
	e->by_delay = law_forget(knee_by_delay(c, &e->highest_us));
	e->knee = law_min(e->by_ece, e->by_delay);
	e->signal = (e->by_ece < n ? KNEE_BY_ECE : 0) | (e->by_delay < n ? KNEE_BY_DELAY : 0);
	e->raw_kbps = knee_kbps(c, e, max_kbps);
	if (!e->signal && e->highest_us <= c->noise_us)
		e->verdict = KNEE_ABOVE;
	else
		e->verdict = e->raw_kbps < c->min_kbps ? KNEE_BELOW : KNEE_WITHIN;
	e->kbps = e->verdict == KNEE_BELOW ? 0 : e->raw_kbps;
}

#endif
