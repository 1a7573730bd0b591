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
 * packets delivered in the last round are counted as well, and if they are fewer they
 * decide, down to reno's half. Out of slow start, where cwnd / RTT is of packets that
 * were not yet sent when this RTT began, they decide alone.
 *
 * A round ends with the first ACK for something that was sent after its beginning:
 * one RTT, however unevenly the packets are spread over it, and more where a loss is
 * repaired in it. While the window grows, the last round is up to two packets behind.
 *
 * Ranges: packets, sequence numbers and us are u32 that wrap; a round is shorter than
 * 2^31 us. ssthresh is at least 2 and never above the window.
 */
#ifndef CCBPF_LAW_WESTWOOD_H
#define CCBPF_LAW_WESTWOOD_H

#include "law/fixed.h"

#define WESTWOOD_LEAST 2 /* packets, RFC 5681 */

#define WESTWOOD_BEHIND 2 /* packets, see above */

struct westwood {
	u32 round_end; /* sequence number */
	u32 mark_packets; /* delivered so far, when this round began */
	u32 mark_us; /* our clock, then */
	u32 packets; /* delivered in the last round */
	u32 elapsed_us; /* that it took, 0: there was none */
};

LAW void westwood_begin(struct westwood *w, u32 snd_nxt, u32 delivered,
			u32 now_us)
{
	w->round_end = snd_nxt;
	w->mark_packets = delivered;
	w->mark_us = now_us;
}

/* At first, and after idle. */
LAW void westwood_restart(struct westwood *w, u32 snd_nxt, u32 delivered,
			  u32 now_us)
{
	westwood_begin(w, snd_nxt, delivered, now_us);
	w->packets = 0;
	w->elapsed_us = 0;
}

/* On every ACK that may be measured: the comparison never spans half the sequence space. */
LAW void westwood_ack(struct westwood *w, u32 snd_una, u32 snd_nxt,
		      u32 delivered, u32 now_us)
{
	if (law_likely(!law_after(snd_una, w->round_end)))
		return;
	w->packets = delivered - w->mark_packets;
	w->elapsed_us = now_us - w->mark_us;
	westwood_begin(w, snd_nxt, delivered, now_us);
}

/* packets: what the last round says of a window, delivered per RTT_min (base_us); ~0:
 * not known */
LAW u32 westwood_delivered(const struct westwood *w, u32 base_us)
{
	u64 packets = (u64)w->packets * base_us;

	if (!base_us || !w->elapsed_us)
		return ~0u;
	packets = packets / w->elapsed_us + WESTWOOD_BEHIND;
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
