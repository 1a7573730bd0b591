/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The time that a packet takes at the bottleneck, from the time between two ACKs.
 *
 *	spacing	 the time between an ACK of two packets or more and the one before it,
 *		 divided by its packets
 *	packet	 the larger one of two spacings in a row; of these, the smallest so far
 *
 * Two spacings in a row are compared, because ACKs that waited behind other flows' data in the
 * reverse path arrive together, and their spacing is too small.
 *
 * The second packet of a pair waits for the first one. This wait does not count as a queue of
 * other flows.
 *
 * Ranges: the clock is u32 us that wrap; a packet's time up to 65 ms, saturating.
 */
#ifndef CCBPF_LAW_SPACING_H
#define CCBPF_LAW_SPACING_H

#include "law/fixed.h"

#define SPACING_MOST_US 0xffff

struct spacing {
	u32 heard_us; /* our clock: the last ACK */
	u16 last_us; /* of a packet at the last ACK, 0: none */
	u16 packet_us; /* of a packet at the bottleneck, 0: not known */
};

LAW void spacing_init(struct spacing *s, u32 now_us)
{
	s->heard_us = now_us;
	s->last_us = 0;
	s->packet_us = 0;
}

/* An ACK of two packets or more, since_us after the one before. */
LAW void spacing_take(struct spacing *s, u32 since_us, u32 acked)
{
	u32 each_us = acked == 2 ? since_us / 2 : since_us / acked, larger_us;

	each_us = law_min(each_us, SPACING_MOST_US);
	larger_us = law_max(each_us, s->last_us);
	if (s->last_us && (!s->packet_us || larger_us < s->packet_us))
		s->packet_us = larger_us;
	s->last_us = each_us;
}

/* An ACK of new data. Returns the us since the ACK before. @acked: packets; 0 where packets are
 * sent in pairs apart, because the time between two ACKs then is not that of a packet. */
LAW u32 spacing_heard(struct spacing *s, u32 now_us, u32 acked)
{
	u32 since_us = now_us - s->heard_us;

	s->heard_us = now_us;
	if (acked >= 2)
		spacing_take(s, since_us, acked);
	return since_us;
}

/* packets: how many a queueing delay (us) is; 0 where the time of a packet is not known */
LAW u32 spacing_packets(const struct spacing *s, u32 delay_us)
{
	return s->packet_us ? delay_us / s->packet_us : 0;
}

/* us: for how long the second packet of a pair has waited for the first one. A flow that has
 * always had little of the link measures too long a packet time, so an eighth of the base RTT is
 * the bound. */
LAW u32 spacing_own_us(const struct spacing *s, u32 base_us)
{
	return law_min(s->packet_us, base_us / 8);
}

#endif
