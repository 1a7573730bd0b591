/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The round trips of a receiver, its silences and holes, for law/rx_window.h, which is the
 * specification: what a round brings, when it ends, and which hole was a loss.
 */
#ifndef CCBPF_LAW_RX_ROUND_H
#define CCBPF_LAW_RX_ROUND_H

#include "law/rx_delay.h"

/* bytes: what this round has brought so far, or the last one */
LAW u32 rx_arriving(const struct rx *x, const struct rx_ack *a)
{
	u32 arriving = law_max(x->flight, a->rcv_nxt - x->round_seq);

	return law_forget(law_min(arriving, RX_MOST));
}

/* 1/256 packet: what of the window is used: what comes, where that is less */
LAW u32 rx_used_q8(const struct rx *x, const struct rx_ack *a)
{
	u32 arriving = rx_arriving(x, a);
	u32 more = x->avoiding ? arriving / 16 + 2 * a->mss : 0;
	u32 used = law_min(rx_bytes(x, a->mss), arriving + more);

	used = law_forget(used);
	return law_forget(le_q8(used / a->mss) + (used % a->mss << LE_Q8_SHIFT) / a->mss);
}

/* Is the window what limits the flow? */
LAW bool rx_limits(const struct rx *x, const struct rx_ack *a)
{
	u32 arriving = rx_arriving(x, a);

	return law_forget(arriving + arriving / 2 + a->mss >= rx_bytes(x, a->mss));
}

/* --- a round ------------------------------------------------------------------- */

/* A round of the law. That of a cut is over when what the cut changed has arrived. */
LAW_APART int rx_law_round(struct rx *x, const struct rx_ack *a)
{
	struct le_path p;

	rx_path(x, &p);
	if (x->law.stage == LE_FREE && x->packets >= LE_STEADY)
		x->jitter_us -= x->jitter_us / RX_JITTER_FADES;
	le_round(&x->law, rx_used_q8(x, a), rx_limits(x, a), &p);
	return 0;
}

/* Others keep no queue any more. */
LAW_APART int rx_return(struct rx *x)
{
	struct le_path p;

	rx_path(x, &p);
	x->packets = LE_RETURN;
	x->credit = 0;
	x->return_to = le_return_to(&x->law, &p);
	x->law.then_q8 = 0;
	x->law.growth = 0;
	return 0;
}

/* A round without a delay: a cut is not judged, and SMALL ends after its gap. */
LAW void rx_unseen(struct rx *x, const struct rx_ack *a)
{
	if (x->law.stage == LE_JUDGE) {
		le_fell(&x->law, rx_used_q8(x, a));
	} else if (rx_small(x) && x->waited > x->law.count) {
		x->law.stage = LE_FREE;
		x->law.count = 0;
		rx_return(x);
	}
}

/* What the round trip that just ended was. */
LAW void rx_took(struct rx *x, u32 passed_us)
{
	x->rtt_us = law_clamp(passed_us, RX_TICK_US, DELAY_MAX_US);
	if (!x->rounded || x->rtt_us < x->rtt_min_us)
		x->rtt_min_us = x->rtt_us; /* the handshake's packets were small */
	x->rounded = 1;
	x->back_way_us = x->rtt_us > x->queue_us ? x->rtt_us - x->queue_us : 0;
}

/* Did our timestamp of the round's beginning come back, with new data? A round trip. */
LAW bool rx_round_over(const struct rx *x, const struct rx_ack *a)
{
	return (s32)(a->tsecr - x->round_ts) >= 0 && a->rcv_nxt != x->rcv_nxt;
}

LAW_APART int rx_round(struct rx *x, const struct rx_ack *a)
{
	u32 passed_us = a->now_us - x->round_us;

	x->flight = a->rcv_nxt - x->round_seq;
	if (a->fresh && !a->hole)
		rx_took(x, passed_us);
	if (x->law.stage != LE_CUT)
		rx_law_round(x, a);
	if (!x->avoiding && le_us(x->law.most) >= RX_CARRIED * RX_THRESHOLD_US)
		x->law.fits = 1; /* its blocks are rounds, and a loss may come before one ends */
	x->waited = law_min(x->waited + 1, 255);
	rx_begin_round(x, a);
	rx_learn(x, a->now_us, passed_us);
	x->unseen = law_min(x->unseen + 1, RX_UNSEEN);
	if (law_unlikely(rx_blind(x)) && !x->muted)
		rx_unseen(x, a);
	return 0;
}

/* --- silences and holes -------------------------------------------------------- */

/* A silence ended: the round trip starts anew. */
LAW_APART int rx_rested(struct rx *x, const struct rx_ack *a)
{
	u32 least_us = law_min(x->since_us, DELAY_MAX_US);

	x->rtt_us = law_min(2 * x->rtt_us, least_us); /* a longer path? */
	noise_begin(&x->noise);
	le_rested(&x->law);
	rx_begin_round(x, a);
	return 0;
}

LAW void rx_notice_silence(struct rx *x, const struct rx_ack *a)
{
	u32 since_us = a->now_us - x->heard_us;

	x->since_us = a->rcv_nxt == x->rcv_nxt ? 0 : since_us;
	if (!x->since_us)
		return;
	x->heard_us = a->now_us;
	if (law_unlikely(since_us >= law_max(RX_IDLE_US, 2 * x->rtt_us)))
		rx_rested(x, a);
}

/* Was a hole just filled, wholly or in part, by a packet that was sent again? Where an older one
 * filled a part of it, what waits behind it is the same as before. */
LAW bool rx_lost(struct rx *x, const struct rx_ack *a)
{
	bool filled = x->hole && a->rcv_nxt != x->rcv_nxt;
	bool lost = filled && law_after(a->tsval, x->hole_ts);

	if (a->hole && (!x->hole || lost)) {
		x->hole_ts = a->tsval;
		x->hole_us = delay_certain(le_lost_us(&x->law), rx_stood_us(x));
	}
	x->hole = a->hole;
	x->filled = filled;
	return lost;
}

#endif
