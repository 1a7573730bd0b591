/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * TCP-LP's congestion avoidance policy (paper III-B, figure 3) as a machine that
 * turns indications into verdicts and knows nothing of where they come from.
 *
 *	           indication: HALVE                indication: TO_ONE
 *	+-----------+  --------------->  +-----------+  ---+
 *	| avoidance |                    | inference |     | (timer restarts)
 *	|   GROW    |  <---------------  |   HOLD    |  <--+
 *	+-----------+   timer of 3 RTT   +-----------+
 *
 * It reacts at most once per RTT, to an indication or to a loss: an RTT is the
 * time until all that was sent before the reaction is acknowledged, a window of
 * sequence numbers and not of time (paper III-B.2; RFC 3168, 6.1.2). In that
 * window indications cause no reaction, and cwnd does not grow at an ACK with one.
 *
 * Ranges: the clock is the lower 32 bits of us; a phase lasts up to 268 s, and a pause that
 * is longer ends it (inference_idle()), as the clock wraps after 71.6 minutes.
 */
#ifndef CCBPF_LAW_INFERENCE_H
#define CCBPF_LAW_INFERENCE_H

#include "law/fixed.h"

#define INFERENCE_MOST_US (1u << 28) /* 268 s: no phase is longer */

enum inference_verdict {
	INFERENCE_GROW,
	INFERENCE_HOLD,
	INFERENCE_HALVE,
	INFERENCE_TO_ONE,
};

struct inference {
	u32 until_us; /* our clock: end of the inference phase */
	u32 muted_until; /* sequence number: the reaction's RTT ends here */
	u8 active; /* in the inference phase */
	u8 muted; /* muted_until counts */
};

/* Where the flow stands at this ACK. */
struct inference_ack {
	u32 now_us; /* our clock */
	u32 rtt_us; /* us: smoothed round trip */
	u32 snd_una; /* sequence numbers */
	u32 snd_nxt;
	u32 rtts; /* length of the inference phase, >= 1 */
};

LAW void inference_init(struct inference *m)
{
	m->until_us = 0;
	m->muted_until = 0;
	m->active = 0;
	m->muted = 0;
}

/* A reaction happened (to anything): mute the next RTT. */
LAW void inference_mute(struct inference *m, u32 snd_nxt)
{
	m->muted_until = snd_nxt;
	m->muted = 1;
}

/* Ends the reaction's RTT when this ACK covers a packet sent after the reaction;
 * true if it just did. To be called on every ACK that may be measured, so that the
 * comparison never spans half the sequence space. */
LAW bool inference_unmute(struct inference *m, u32 snd_una)
{
	if (!m->muted || !law_after(snd_una, m->muted_until))
		return false;
	m->muted = 0;
	return true;
}

/* us until the inference phase ends; 0: there is no phase, or it is over. The clock wraps: an
 * end further away than the longest phase has already passed. */
LAW u32 inference_left_us(const struct inference *m, u32 now_us)
{
	u32 left_us = m->until_us - now_us;

	return m->active && left_us < INFERENCE_MOST_US ? left_us : 0;
}

/* Ends the inference phase when its time is over; true if it just did. */
LAW bool inference_expire(struct inference *m, u32 now_us)
{
	if (!m->active || inference_left_us(m, now_us))
		return false;
	m->active = 0;
	return true;
}

/* No ACK for @idle_kius (1024 us): a pause that is longer than any phase ends the phase, although
 * the clock may have wrapped meanwhile. */
LAW void inference_idle(struct inference *m, u32 idle_kius)
{
	if (idle_kius >= INFERENCE_MOST_US >> KIUS_SHIFT)
		m->active = 0;
}

/* An indication that still belongs to the last reaction: it does not count, its RTT is muted as
 * well, and the phase becomes longer by that RTT. */
LAW void inference_forgive(struct inference *m, u32 snd_nxt, u32 rtt_us)
{
	m->until_us += rtt_us;
	inference_mute(m, snd_nxt);
}

LAW u32 inference_length_us(const struct inference_ack *a)
{
	u64 length_us = (u64)a->rtt_us * a->rtts;

	return length_us < INFERENCE_MOST_US ? length_us : INFERENCE_MOST_US - 1;
}

/* figure 3, after inference_unmute() and inference_expire() */
LAW enum inference_verdict inference_step(struct inference *m, const struct inference_ack *a,
					  bool indicated)
{
	enum inference_verdict verdict;

	if (!indicated)
		return m->active ? INFERENCE_HOLD : INFERENCE_GROW;
	if (m->muted)
		return INFERENCE_HOLD;
	verdict = m->active ? INFERENCE_TO_ONE : INFERENCE_HALVE;
	m->active = 1;
	m->until_us = a->now_us + inference_length_us(a);
	inference_mute(m, a->snd_nxt);
	return verdict;
}

/* packets: what a reducing verdict leaves of @window, at least 1 */
LAW u32 inference_reduced(enum inference_verdict verdict, u32 window)
{
	return verdict == INFERENCE_TO_ONE ? 1 : law_max(window / 2, 1);
}

#endif
