/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Westwood's answer to a loss (paper: tcpw-lp 4.1): not half of the window, but
 * what the path carried.
 *
 *	ssthresh = ERE RTT_min
 *	cwnd     = min(cwnd, ssthresh)
 *
 * With ERE = cwnd / RTT (4.2) a loss without a queue takes nothing, and that is what
 * makes it survive random loss. But cwnd / RTT counts what was sent. Where a path
 * drops without a queue (a policer, a very small buffer) fewer packets arrive, and
 * the paper's achieved rate is "the rate at which packets are delivered": so the
 * packets delivered in the last one to two RTT are counted as well, and if they are
 * fewer they decide, down to reno's half. Out of slow start, where cwnd / RTT is of
 * packets that were not yet sent when this RTT began, they decide alone.
 *
 * Ranges: packets and us are u32 that wrap; rates are compared over at most a few
 * RTT. ssthresh is at least 2 and never above the window.
 */
#ifndef CCBPF_LAW_WESTWOOD_H
#define CCBPF_LAW_WESTWOOD_H

#include "law/fixed.h"

#define WESTWOOD_LEAST 2 /* packets, RFC 5681 */

/* Two marks: the older one is one to two RTT old while ACKs arrive. */
struct westwood {
	u32 from_packets; /* delivered so far, at the older mark */
	u32 from_us; /* our clock */
	u32 mark_packets; /* ... and at the newer one */
	u32 mark_us;
};

LAW void westwood_restart(struct westwood *w, u32 delivered, u32 now_us)
{
	w->from_packets = delivered;
	w->from_us = now_us;
	w->mark_packets = delivered;
	w->mark_us = now_us;
}

/* On every ACK. */
LAW void westwood_ack(struct westwood *w, u32 delivered, u32 now_us, u32 rtt_us)
{
	if (law_likely(now_us - w->mark_us < rtt_us))
		return;
	w->from_packets = w->mark_packets;
	w->from_us = w->mark_us;
	w->mark_packets = delivered;
	w->mark_us = now_us;
}

/* packets: delivered in RTT_min (base_us) at the measured rate; ~0: not known, as
 * less than the round trip was measured */
LAW u32 westwood_delivered(const struct westwood *w, u32 delivered, u32 now_us,
			   u32 base_us, u32 rtt_us)
{
	u32 elapsed_us = now_us - w->from_us;
	u64 packets = (u64)(delivered - w->from_packets) * base_us;

	if (!base_us || elapsed_us < law_max(rtt_us, 1))
		return ~0u;
	packets /= elapsed_us;
	return packets > ~0u ? ~0u : packets;
}

/* packets: ssthresh after a loss. pipe = cwnd RTT_min / RTT; delivered as above;
 * no_chance: a mark (ECN) is never chance, nor is a loss where no RTT is known: they
 * take half at the least. */
LAW u32 westwood_ssthresh(u32 cwnd, u32 pipe, u32 delivered, bool slow_start,
			  bool no_chance)
{
	u32 half = cwnd / 2, to = law_min(cwnd, pipe);

	if (delivered < to)
		to = slow_start ? delivered
				: law_min(to, law_max(delivered, half));
	if (no_chance)
		to = law_min(to, half);
	return law_max(law_min(to, cwnd), WESTWOOD_LEAST);
}

#endif
