/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Westwood's answer to a loss (paper: tcpw-lp 4.1): the window becomes what the path
 * carried, not half.
 *
 *	ssthresh = ERE RTT_min
 *	cwnd     = min(cwnd, ssthresh)
 *
 * With ERE = cwnd / RTT (4.2) a loss without a queue does not reduce the window: so the flow
 * survives random loss. Whether a loss is random is decided elsewhere (law/chance.h); if it
 * is not, at most half remains.
 *
 * At the end of slow start cwnd / RTT counts packets that were not yet sent when this RTT
 * began. The paper's achieved rate is "the rate at which packets are delivered": so there
 * ERE is computed from the packets delivered in the last round.
 *
 * A round ends with the first ACK for a packet that was sent after the round's beginning
 * (law/noise.h): one RTT, however unevenly the packets are spread over it. While the window
 * grows, the last round is up to two packets behind.
 *
 * Ranges: packets and us are u32 that wrap; a round is shorter than 2^31 us. ssthresh is at
 * least 2 and never above the window.
 */
#ifndef CCBPF_LAW_WESTWOOD_H
#define CCBPF_LAW_WESTWOOD_H

#include "law/fixed.h"

#define WESTWOOD_LEAST 2 /* packets, RFC 5681 */
#define WESTWOOD_BEHIND 2 /* packets, see above */

struct westwood {
	u32 mark_packets; /* delivered so far, when this round began */
	u32 mark_us; /* our clock, then */
	u32 packets; /* delivered in the last round */
	u32 elapsed_us; /* us: how long that round took, 0: there was none */
};

LAW void westwood_begin(struct westwood *w, u32 delivered, u32 now_us)
{
	w->mark_packets = delivered;
	w->mark_us = now_us;
}

/* At first, and after idle. */
LAW void westwood_restart(struct westwood *w, u32 delivered, u32 now_us)
{
	westwood_begin(w, delivered, now_us);
	w->packets = 0;
	w->elapsed_us = 0;
}

/* A round has ended (law/noise.h). */
LAW void westwood_turn(struct westwood *w, u32 delivered, u32 now_us)
{
	w->packets = delivered - w->mark_packets;
	w->elapsed_us = now_us - w->mark_us;
	westwood_begin(w, delivered, now_us);
}

/* packets: the window that delivers per RTT_min (base_us) what the last round delivered; ~0: not
 * known */
LAW u32 westwood_delivered(const struct westwood *w, u32 base_us)
{
	u64 packets = (u64)w->packets * base_us;

	if (!base_us || !w->elapsed_us)
		return ~0u;
	packets = packets / w->elapsed_us + WESTWOOD_BEHIND;
	return packets > ~0u ? ~0u : packets;
}

/* packets: ssthresh after a loss. pipe = cwnd RTT_min / RTT; delivered as above, ~0 after slow
 * start; chance: the loss was chance */
LAW u32 westwood_ssthresh(u32 cwnd, u32 pipe, u32 delivered, bool chance)
{
	u32 to = law_min(law_min(cwnd, pipe), delivered);

	if (!chance)
		to = law_min(to, cwnd / 2);
	return law_max(law_min(to, cwnd), WESTWOOD_LEAST);
}

#endif
