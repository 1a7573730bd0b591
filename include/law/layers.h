/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * LTCP's virtual layers: how many flows one flow is worth (paper section 3).
 *
 *	W_K   = W_T K (K + 1) (K - 1) / 6                               (eq. 11)
 *	layer = K while W_K <= w < W_K+1
 *	ACKs  : w += K_R K for each window of them, K_R = 1 in the first layer
 *	loss  : w -= beta w above W_T, reno's half up to it              (eq. 4)
 *	K_R   = (RTT_min / RTT_ref)^(1/3), at least 1                       (3.4)
 *
 * A window of ACKs is a round: as many acknowledged packets as the window held
 * when the round began. Each packet earns K_R K of credit, and each time that the
 * credit reaches the round's window, w grows by one. No credit is ever lost:
 * n packets earn the same however many ACKs acknowledge them, and what a round
 * leaves over, a fraction of a packet, is taken to the next one. (Only where the
 * layer changes within a round is that fraction rounded down, by < 2^-12.)
 *
 * Ranges: windows of 32 bits; layers up to LAYERS_MAX, which begins at 139 million
 * packets where W_T = 50 and has no end. W_T <= 1000: W_256 fits u32. RTT_min <= 2^23 us
 * and RTT_ref >= 1 ms: K_R <= 20.4. K_R is rounded down, in units of 2^-12. Credit
 * < 2^32 * 2^12 before an ACK, which adds < 2^32 * 2^8 * 20.4 * 2^12: fits u64.
 */
#ifndef CCBPF_LAW_LAYERS_H
#define CCBPF_LAW_LAYERS_H

#include "law/fixed.h"

#define LAYERS_MAX 255
#define LAYERS_Q 12
#define LAYERS_ONE (1 << LAYERS_Q)
#define LAYERS_RTT_MAX_US (1 << 23)
#define LAYERS_CBRT_BIT 20 /* the highest of a cube root of 63 bits */
#define LAYERS_REDUCED_MIN 2 /* packets: RFC 5681, eq. 4 */

struct layers {
	u64 credit; /* 2^-12 packets, times the round's window */
	u32 window; /* packets: after the last growth */
	u32 round; /* packets: the window when this round began */
	u32 left; /* packets still to be acknowledged in it */
	u32 layer; /* K */
	u32 begin; /* packets: W_K */
	u32 end; /* packets: W_K+1 */
	u32 first; /* packets: the W_T of these two */
	u32 kr_q12; /* K_R */
};

/* The largest r with r^3 <= v < 2^63, bit by bit (exact). Without a branch: the
 * verifier would walk through each of the 2^21 ways of the bits. */
LAW u32 layers_cbrt(u64 v)
{
	u64 r = 0;

	for (int bit = LAYERS_CBRT_BIT; bit >= 0; bit--) {
		u64 more = r | 1ull << bit;
		u64 above = (v / more - more * more) >> 63; /* more^3 > v */

		r |= (above ^ 1) << bit;
	}
	return r;
}

/* packets: W_K of layer 1 ... LAYERS_MAX + 1, W_T = first <= 1000 */
LAW u32 layers_window(u32 layer, u32 first)
{
	return first * (layer * (layer + 1) * (layer - 1) / 6);
}

/* The layer of a window. With m = 6 w / W_T it is the largest K with K^3 - K <= m: the cube root
 * of m, or the number after it. */
LAW u32 layers_of(u32 window, u32 first)
{
	u64 m = 6ull * (window / law_max(first, 1));
	u64 root = layers_cbrt(m), next = root + 1;

	if (next * next * next - next <= m)
		root = next;
	return root > LAYERS_MAX ? LAYERS_MAX : law_max(root, 1);
}

LAW void layers_init(struct layers *l)
{
	l->credit = 0;
	l->window = 0;
	l->round = 0;
	l->left = 0;
	l->first = 0;
	l->begin = 0;
	l->end = 0;
	l->kr_q12 = LAYERS_ONE;
	l->layer = 1;
}

/* Is this window still in the layer that layers_place() found for the last one? */
LAW bool layers_at(const struct layers *l, u32 window, u32 first)
{
	return window - l->begin < l->end - l->begin && first == l->first;
}

/* Find the layer of a window; true: it is another one. */
LAW bool layers_place(struct layers *l, u32 window, u32 first)
{
	u32 was = l->layer;

	l->first = first;
	l->layer = layers_of(window, first);
	l->begin = layers_window(l->layer, first);
	l->end = l->layer < LAYERS_MAX ? layers_window(l->layer + 1, first) : ~0u;
	return l->layer != was;
}

/* K_R; times in us, rtt_ref_us >= 1000. An RTT of 0 is not known: K_R is 1. */
LAW u32 layers_kr_q12(u32 rtt_min_us, u32 rtt_ref_us)
{
	u64 rtt_us = law_min(rtt_min_us, LAYERS_RTT_MAX_US);

	if (rtt_us <= rtt_ref_us)
		return LAYERS_ONE;
	return layers_cbrt((rtt_us << 3 * LAYERS_Q) / law_max(rtt_ref_us, 1));
}

/* What a window of ACKs adds, in 2^-12 packets */
LAW u32 layers_rate_q12(const struct layers *l)
{
	return l->layer == 1 ? LAYERS_ONE : l->layer * l->kr_q12;
}

LAW void layers_begin(struct layers *l, u32 window, u64 fraction_q12)
{
	l->window = window;
	l->round = law_max(window, 1);
	l->left = l->round;
	l->credit = fraction_q12 * l->round;
}

LAW void layers_earn(struct layers *l, u32 acked)
{
	u64 price = (u64)l->round << LAYERS_Q;

	l->left -= acked;
	l->credit += (u64)acked * layers_rate_q12(l);
	if (law_unlikely(l->credit >= price)) {
		l->window += l->credit / price;
		l->credit %= price;
	}
}

/* @acked packets were acknowledged while the window limited the flow; returns the new window. A
 * new round begins if the window is not the one that was returned last. An ACK of more than two
 * windows is credited as two. */
LAW u32 layers_grow(struct layers *l, u32 window, u32 acked)
{
	if (law_unlikely(window != l->window || !l->left))
		layers_begin(l, window, 0);
	if (law_unlikely(acked >= l->left)) {
		acked -= l->left;
		layers_earn(l, l->left);
		layers_begin(l, l->window, l->credit / l->round);
		acked = law_min(acked, l->round - 1);
	}
	layers_earn(l, acked);
	return l->window;
}

/* The window after a loss, beta in 1/1000 */
LAW u32 layers_reduced(u32 window, u32 first, u32 beta)
{
	u32 kept = window > first ? (u64)window * (1000 - beta) / 1000 : window / 2;

	return law_max(kept, LAYERS_REDUCED_MIN);
}

#endif
