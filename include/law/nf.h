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
 * Deviations from the paper:
 *
 *  1. Fractions of a packet are kept in a credit of shares: w packets of share are one
 *     packet of window, nothing is lost by rounding. A mark clears the credit.
 *  2. Eq. 7 ends at a target of 15/16 of BW_est for one RTT; from there eq. 8 ("gets close
 *     to the available bandwidth and then resorts to a slower increase", 4.4). Without a
 *     target a flow that sees neither mark nor new estimate would add alpha BW_est again in
 *     every RTT. With the whole of a true estimate as its target it would be marked next,
 *     which costs twice that 1/16. In one RTT the window grows by no more than is missing to
 *     the target: a dozen packets within a tenth of an RTT are a queue as well.
 *  3. Never faster than slow start: as many packets as were acknowledged.
 *  4. A share is at least one packet: a small estimate is no reason to grow slower than
 *     without one.
 *  5. Eq. 2 takes at least one packet, and leaves at least 2.
 *  6. b doubles with each mark, up to a half, and halves with each RTT without one: where
 *     the first cut did not end the marks, other flows want the link (nf_decrease()).
 *  7. A single mark says that the window was a little too large. After an RTT without another
 *     mark eq. 7 goes back to a part of the marked window (nf_back()).
 *  8. Where nobody marks and packets are lost without a queue (a policer, a buffer of a few
 *     packets), a flow that is paced loses fewer packets than flows that send bursts, and with
 *     eq. 8 takes the link from them. There it grows by half a packet per RTT, and below 6
 *     packets by an eighth: with half a packet there as well, reno had .55 of its goodput
 *     on a queue of three packets (tests/sim, row tiny-buffer) (nf_bare_share_q8()).
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
#define NF_BARE_SHIFT 1 /* half of eq. 8's share: see 8. */
#define NF_BARE_FEW_SHIFT 3
#define NF_BARE_FEW 6 /* packets */
#define NF_WINDOW_MAX (1u << 23) /* and its 1/256 fit a u32 */
#define NF_CLOSE_SHIFT 4 /* 15/16 of what is free is close to it */
#define NF_KBIT_US 1000 /* kbit/s us in a bit */
#define NF_ROW_MOST 7 /* doublings of b: from 1 % to all */

/* permille: b of eq. 2, doubled `row` times, up to most (see 6.) */
LAW u32 nf_decrease(u32 b_permille, u32 most_permille, u32 row)
{
	u32 b = law_min(b_permille, 1000) << law_min(row, NF_ROW_MOST);

	return law_max(law_min(b, most_permille), law_min(b_permille, 1000));
}

/* The row after a mark: one more, where that takes more. */
LAW u32 nf_row(u32 b_permille, u32 most_permille, u32 row)
{
	u32 b = nf_decrease(b_permille, most_permille, row);

	row = law_min(row, NF_ROW_MOST);
	return nf_decrease(b_permille, most_permille, row + 1) > b ? row + 1 : row;
}

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
	u64 packets_q8 =
		(bits >> 56 ? ~0ull : bits << NF_SHARE_SHIFT) / 8 / law_max(packet_bytes, 1);

	return packets_q8 > NF_SHARE_MAX ? NF_SHARE_MAX : packets_q8;
}

/* packets: the window after a loss, reno's */
LAW u32 nf_half(u32 w)
{
	return law_max(w / 2, NF_LEAST);
}

/* packets: the target after a mark, a part of the window that was marked (see 7.) */
LAW u32 nf_back(u32 w, u32 part_permille)
{
	return (u64)w * law_min(part_permille, 1000) / 1000;
}

/* kbit/s: a window each round trip; 0 without one */
LAW u32 nf_kbps(u32 w, u32 rtt_us, u32 packet_bytes)
{
	u64 bits = (u64)law_min(w, NF_WINDOW_MAX) * 8 * law_min(packet_bytes, 1u << 16);
	u64 kbps = rtt_us ? bits * NF_KBIT_US / rtt_us : 0;

	return kbps > ~0u ? ~0u : kbps;
}

/* 1/256 packets that a window of ACKs adds: eq. 7, alpha in permille; eq. 8 with
 * bw_kbps 0 */
LAW u32 nf_share_q8(u32 alpha_permille, u32 bw_kbps, u32 rtt_us, u32 packet_bytes)
{
	u64 all_q8 = nf_packets_q8(bw_kbps, rtt_us, packet_bytes);
	u32 share_q8 = all_q8 * law_min(alpha_permille, 1000) / 1000;

	return law_max(share_q8, NF_SHARE_ONE);
}

/* 1/256 packets: in place of eq. 8's share where packets are lost without a queue (see 8.) */
LAW u32 nf_bare_share_q8(u32 w)
{
	return NF_SHARE_ONE >> (w < NF_BARE_FEW ? NF_BARE_FEW_SHIFT : NF_BARE_SHIFT);
}

/* packets: eq. 7 grows the window up to here. A chirp measures all that the flow may have. */
LAW u32 nf_target(u32 bw_kbps, u32 rtt_us, u32 packet_bytes)
{
	u32 all_q8 = nf_packets_q8(bw_kbps, rtt_us, packet_bytes);

	return (all_q8 - (all_q8 >> NF_CLOSE_SHIFT)) >> NF_SHARE_SHIFT;
}

/* 1/256 packets: a share that takes what is missing in an RTT, at least eq. 8's */
LAW u32 nf_missing_q8(u32 w, u32 target)
{
	u32 missing = w < target ? law_min(target - w, NF_WINDOW_MAX) : 0;

	return law_max(law_min(missing << NF_SHARE_SHIFT, NF_SHARE_MAX), NF_SHARE_ONE);
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
	more = sum > acked ? acked : sum;
	more = law_min(more, room);
	return law_min(w + more, NF_WINDOW_MAX);
}

#endif
