/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * NF-TCP's window (NF-TCP paper, eq. 2, 7, 8).
 *
 *	mark		 w -= b w						(2)
 *	ACK, BW_est > 0	 w += share / w,  share = alpha BW_est RTT / packet	(7)
 *	ACK, BW_est = 0	 w += 1 / w						(8)
 *
 * So the share is what a whole window of ACKs adds, and eq. 8 is a share of one packet.
 *
 *  1. What is not yet a whole packet stays in a credit of shares: w packets of share are
 *     one packet of window, nothing is lost by rounding. The credit goes with a mark.
 *  2. The window does not pass the target by eq. 7: what it was when the estimate came,
 *     and 15/16 of BW_est for one RTT; from there eq. 8 ("gets close to the available
 *     bandwidth and then resorts to a slower increase", 4.4). Without it a flow that sees
 *     neither mark nor new estimate would take alpha BW_est again in every RTT, and with
 *     the whole of a true estimate the next thing is a mark, which costs twice that 1/16.
 *     Nor is more taken in an RTT than is missing: a dozen packets within a tenth of it
 *     are a queue as well.
 *  3. Never faster than slow start: as many packets as were acknowledged.
 *  4. A share is one packet at the least: a small estimate is no reason to grow slower
 *     than with none.
 *  5. Eq. 2 takes a packet at the least, and leaves 2.
 *
 * Ranges: windows up to 2^23 packets, the share up to 2^22 packets in 1/256, saturating.
 */
#ifndef CCBPF_LAW_NF_H
#define CCBPF_LAW_NF_H

#include "law/fixed.h"

#define NF_LEAST 2 /* packets */
#define NF_SHARE_SHIFT 8 /* shares are in 1/256 packet */
#define NF_SHARE_ONE (1u << NF_SHARE_SHIFT) /* eq. 8 */
#define NF_SHARE_MAX (1u << 30)
#define NF_WINDOW_MAX (1u << 23) /* and its 1/256 fit a u32 */
#define NF_CLOSE_SHIFT 4 /* 15/16 of what is free is close to it */
#define NF_KBIT_US 1000 /* kbit/s us in a bit */

/* packets: the window after a mark (eq. 2), b in permille; a packet less at the least.
 * A window of 2 or less stays, and is never 0. */
LAW u32 nf_cut(u32 w, u32 b_permille)
{
	u32 left = (u64)w * (1000 - law_min(b_permille, 1000)) / 1000;

	if (w <= NF_LEAST)
		return law_max(w, 1);
	return law_max(law_min(left, w - 1), NF_LEAST);
}

/* 1/256 packets that this rate sends in an RTT */
LAW u32 nf_packets_q8(u32 kbps, u32 rtt_us, u32 packet_bytes)
{
	u64 bits = (u64)kbps * rtt_us / NF_KBIT_US;
	u64 packets_q8 = (bits >> 56 ? ~0ull : bits << NF_SHARE_SHIFT) / 8 /
			 law_max(packet_bytes, 1);

	return packets_q8 > NF_SHARE_MAX ? NF_SHARE_MAX : packets_q8;
}

/* kbit/s: a window each round trip; 0 without one */
LAW u32 nf_kbps(u32 w, u32 rtt_us, u32 packet_bytes)
{
	u64 bits = (u64)law_min(w, NF_WINDOW_MAX) * 8 *
		   law_min(packet_bytes, 1u << 16);
	u64 kbps = rtt_us ? bits * NF_KBIT_US / rtt_us : 0;

	return kbps > ~0u ? ~0u : kbps;
}

/* 1/256 packets that a window of ACKs adds: eq. 7, alpha in permille; eq. 8 with
 * bw_kbps 0 */
LAW u32 nf_share_q8(u32 alpha_permille, u32 bw_kbps, u32 rtt_us,
		    u32 packet_bytes)
{
	u64 all_q8 = nf_packets_q8(bw_kbps, rtt_us, packet_bytes);

	return law_max(all_q8 * law_min(alpha_permille, 1000) / 1000,
		       NF_SHARE_ONE);
}

/* packets: up to here by eq. 7. was: what is not in the estimate, the window when it
 * came (0 where the estimate is of all that we may send) */
LAW u32 nf_target(u32 was, u32 bw_kbps, u32 rtt_us, u32 packet_bytes)
{
	u32 all_q8 = nf_packets_q8(bw_kbps, rtt_us, packet_bytes);

	return law_min(was, NF_WINDOW_MAX) +
	       ((all_q8 - (all_q8 >> NF_CLOSE_SHIFT)) >> NF_SHARE_SHIFT);
}

/* packets: the window after `acked` packets were acknowledged in one ACK. credit: of
 * the flow, 0 at first and after a cut */
LAW u32 nf_grow(u32 *credit, u32 w, u32 acked, u32 share_q8, u32 target)
{
	u32 room, more, unit;
	u64 sum;

	w = law_clamp(w, 1, NF_WINDOW_MAX);
	room = w < target ? law_min(target - w, NF_WINDOW_MAX) : 1;
	share_q8 = law_min(share_q8, room << NF_SHARE_SHIFT);
	unit = w << NF_SHARE_SHIFT;
	sum = *credit + (u64)law_min(acked, NF_WINDOW_MAX) * share_q8;
	if (sum < unit) {
		*credit = sum;
		return w;
	}
	*credit = sum % unit;
	sum /= unit;
	more = law_min(sum > acked ? acked : sum, room);
	return law_min(w + more, NF_WINDOW_MAX);
}

#endif
