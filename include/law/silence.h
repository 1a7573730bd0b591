/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Did the path stand still? While a path stands still, no ACK arrives: a silence.
 *
 *	silence	 no ACK for 8 ms and for three packets' time (law/spacing.h)
 *	stood	 the longest silence that raised the delay by as much, in this round and in
 *		 the one before: a packet that is acknowledged now was sent in one of the two
 *	pause	 a silence may come from a pause of our own sending. Then the delay rises by
 *		 what other flows have put into the queue meanwhile, which is less: a rise
 *		 below three quarters of the silence is no standstill. With pairs that are sent
 *		 apart the two cannot be distinguished, so there every silence is a standstill
 *
 * A link that stands still delays every packet that is on its way; this delay does not show the
 * size of the link's buffer. Where a queue delays a packet, other packets leave the queue
 * meanwhile, and their ACKs arrive.
 *
 * Ranges: silences are kept in 16 us up to 1.05 s, saturating.
 */
#ifndef CCBPF_LAW_SILENCE_H
#define CCBPF_LAW_SILENCE_H

#include "law/fixed.h"

#define SILENCE_SHIFT 4 /* 16 us */
#define SILENCE_MOST 0xffff
#define SILENCE_LEAST_US 8000
#define SILENCE_PACKETS 3
#define SILENCE_DELAYED_US 30000

struct silence {
	u16 stood, before; /* 16 us: of this round, of the one before */
};

LAW void silence_init(struct silence *s)
{
	s->stood = 0;
	s->before = 0;
}

/* A round has ended (law/noise.h). */
LAW void silence_turn(struct silence *s)
{
	s->before = s->stood;
	s->stood = 0;
}

/* us: for how long the path stood still while the packets that are acknowledged now were on their
 * way */
LAW u32 silence_stood_us(const struct silence *s)
{
	return (u32)law_max(s->stood, s->before) << SILENCE_SHIFT;
}

/* Was it a silence? The time of a few packets is not one: between two of our packets those of
 * others leave. */
LAW bool silence_was(u32 since_us, u32 packet_us)
{
	return law_unlikely(since_us >= SILENCE_LEAST_US) &&
	       since_us >= packet_us * SILENCE_PACKETS;
}

/* May a delayed ACK have caused it? The shortest such delay is 40 ms, however slow the path is. */
LAW bool silence_delays(u32 since_us, u32 packet_us)
{
	return silence_was(since_us, law_min(packet_us, SILENCE_DELAYED_US / SILENCE_PACKETS));
}

/* A silence has ended. The queueing delay is @delay_us now, and was @before_us at the ACK before:
 * the path stood still for as much of the silence as the delay has risen. @apart: packets are
 * sent in pairs apart. */
LAW void silence_take(struct silence *s, u32 since_us, u32 delay_us, u32 before_us, bool apart)
{
	u32 rise_us = delay_us > before_us ? delay_us - before_us : 0;
	u32 stood = law_min(since_us, rise_us) >> SILENCE_SHIFT;

	if (!apart && rise_us < since_us - since_us / 4)
		return;
	stood = law_min(stood, SILENCE_MOST);
	if (stood > s->stood)
		s->stood = stood;
}

#endif
