/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The receiver's control law: that of `le` (law/le.h) on the window that a receiver advertises, as
 * RFC 9840 (rLEDBAT) has it for LEDBAT++. It is called when an ACK is about to be sent, and its
 * window is for that ACK. The sender is any sender.
 *
 *	measure	 owd  one-way delay of the newest data (law/rx_clock.h)
 *		 d    = RTT_min + owd - owd_min, fed to law/delay.h in the place of an RTT
 *		 q    the smallest part of a block's delays that must be the queue of others
 *	decide	 q > T, T = 4 ms, less in a small buffer, at least 1.5 times the noise of the
 *		 path, which counts up to 6 ms
 *	act
 *	  START: w = 5/2 of what a round trip brings (never in the sender's way)
 *	    |
 *	    | q > T, or a loss: as from FREE
 *	    v       q > T: w = w base / (base + q)        a round later
 *	  FREE ---------------------------------> CUT -----------------> JUDGE
 *	   ^ ^                                                            | |
 *	   | |                  q <= T: the queue was its own             | |
 *	   | +------------------------------------------------------------+ |
 *	   |                                                                | q > T in three
 *	   |  w += 1/4 in a round trip,                                     | blocks, > 2 T in two,
 *	   |  up to `back`             no queue, once or twice              v or > 2 q of the cut
 *	   +------------------------------------------------------------- SMALL: w = 1 packet
 *
 *  1. A round trip ends when data comes that answers an ACK of its beginning, by our own
 *     timestamp that comes back (TSecr). What came meanwhile is the flight.
 *  2. What was advertised is never taken back: a smaller window stands still at its right
 *     edge until data has used it up. The round of a cut ends with the first data beyond
 *     that edge. Where the window scale rounds the edge up with each ACK it is followed, by
 *     at most as much again.
 *     After START that edge is up to three flights away, later two: what START has advertised the
 *     sender still sends. (With two, three of seven downloads alone at 200 ms took the rest of it for
 *     the queue of others, and had two thirds of their rate 30 s later; with three, none of sixteen.)
 *  3. The window is at least one packet, and a multiple of the window scale's unit above that, or
 *     rounding would give back what a cut takes. RFC 9840 has two, because the ACK of a single
 *     segment is delayed: the kernel sends it when the data is read, as the segment has used up the
 *     window. A window cannot be held at 0 for some round trips, as `le` waits between its pairs:
 *     only data makes us send an ACK. So in SMALL a packet comes in each round trip, and only that
 *     of each gap is judged.
 *  4. The window only grows while it is what limits the flow, and a cut begins from what comes,
 *     where that is less: the sender may have reduced for a loss.
 *  5. A queue that the flow's own burst causes is no queue of others: it is computed from the times
 *     at which the packets were sent (rx_own_us()). Senders that are not paced send what came
 *     together as a burst, most of all where ACKs waited in a queue of the way back. 7/8 of that wait
 *     count. (With all of it a download at 200 ms has .76 of its rate, now .98, and one beside a
 *     foreground yields after 1.6 s, now .2: tests/sim/CONSTANTS.md.) In START, where the time of a
 *     packet is not known, a block is a whole round.
 *  6. On the way back the window grows by a quarter in a round trip, where `le` grows by half: a
 *     receiver cannot pace its sender. (By half, two that start 20 s apart push each other away:
 *     they used .86 of their link in place of .95.) So other downloads may drain a block later than
 *     this one, and the first block of a judgement that is above T, but not above 2 T, does not
 *     count. (Without that, three that start 3 s apart used .92 of their link, now .96; a foreground
 *     keeps as much. 64 draws of the simulator.)
 *  7. A loss is a hole that is filled by a packet sent after those behind it, by TSval. A hole that
 *     an older packet fills was reordering. Where no queue was at the hole, on a path that carries
 *     one, the loss is chance: the sender reduces for it, and the window stays. On a path that has
 *     not shown a queue yet the window loses 1/8 (with a half 50 Mbit/s, 40 ms and 1 % of loss left
 *     .64 of the sender's own goodput, now .96). If what was sent again had come before (D-SACK
 *     within three rounds), the packet was only late, and the window is what it was.
 *  8. A packet that overtook others tells no shortest delay, nor a round trip. Nor does one packet
 *     alone that is 8 ms faster than all before it: in SMALL no hole shows that it overtook. (With
 *     2 % of the packets 25 ms early such a download had .19 of its rate in the worst of 64 draws,
 *     now .52, and 40 of them had .9 of it, now 56.)
 *  9. owd_min cannot tell the drift of the two clocks from a queue. Where a whole round's
 *     delays lie above the queue that the RTT shows, owd_min follows, by 1/1024 of the time.
 * 10. A delay that stands still in SMALL, 16 times 0.8 s apart, is a longer path (law/flat.h).
 * 11. The base of a drain is the last round trip without the queue of the way here: the window fills
 *     the way back, too, with the queue of an upload.
 * 12. Where no delay is known, because the sender's clock fits no tick in use (law/rx_clock.h) or no
 *     ACK answers a packet at once, only losses reduce the window: a cut is not judged, and SMALL
 *     ends after its gap.
 * 13. After a silence the round trip starts anew: the pause is none. The round trip that makes a
 *     silence doubles with each one, up to that silence: on a path that became longer than that,
 *     each segment of a small window comes after a silence. A delay that rose by a silence says
 *     nothing of the buffer (law/silence.h).
 * 14. A flow that began in the queue of others takes that for a part of the path's base delay. It
 *     would keep this queue for ever, and the others would yield to it. So the 8th, 16th, 32nd, 64th
 *     and 128th of each 256 drains are deep: they take another quarter of the window, and the queue
 *     becomes empty. (Without that, nine of ten that start a second apart stood still in two of 256
 *     draws of the simulator; with it, in none.) The quarter goes while a window's packets come, a
 *     packet less for each four, and comes back half as fast as in 6. So no hole in what comes is
 *     followed by a burst. (Taken at once, and back as in 6, it cost a download alone .05 of its
 *     rate at 200 ms, now .01: the burst was taken for the queue of others.)
 *
 * 15. The rounds of a window of a few packets do not show the noise of the path (law/noise.h). Jitter
 *     then looks like a queue that stays, and the law would yield again and again. In SMALL a packet
 *     comes in each round trip, and nearly alone: the mean difference of its delay from that of the one
 *     before is the path's jitter, as RFC 3550 (6.4.1) measures it. A queue of others changes little in
 *     a round trip. Twice the jitter counts as noise, up to 6 ms, in windows larger than SMALL: T is then
 *     the width of a jitter that is uniform. (With +- 4 ms in the lab one of three draws had .43 of its
 *     rate without that; with it each of eight has .91 or more.)
 *
 * Ranges: windows up to 2^30 bytes. Sequence numbers and us are u32 that wrap.
 */
#ifndef CCBPF_LAW_RX_WINDOW_H
#define CCBPF_LAW_RX_WINDOW_H

#include "law/rx_round.h"

/* bytes: @window as it can be advertised */
LAW u32 rx_rounded(u32 window, const struct rx_ack *a)
{
	u32 down = law_min(window, RX_MOST) & ~(a->unit - 1);

	return law_max(down, RX_LEAST * a->mss);
}

/* Until data beyond what is advertised, or was sent, arrives there is no other reaction. */
LAW void rx_mute(struct rx *x, const struct rx_ack *a)
{
	u32 flights = x->avoiding ? 2 : RX_AHEAD_FLIGHTS;
	u32 sent = law_min(a->left, flights * law_max(rx_arriving(x, a), a->mss));

	x->credit = 0;
	x->passed = 0;
	x->follow_until = a->rcv_nxt + 2 * sent;
	x->muted = 1;
	x->muted_until = a->rcv_nxt + sent;
}

/* The edge crept while the window shrinks: what lies before it was not sent after the cut. */
LAW void rx_follow(struct rx *x, const struct rx_ack *a)
{
	u32 sent = law_min(a->left, 2 * law_max(rx_arriving(x, a), a->mss));

	if (!x->muted || a->left <= rx_bytes(x, a->mss) + a->mss)
		return;
	if (!law_after(a->rcv_nxt + sent, x->follow_until) &&
	    law_after(a->rcv_nxt + sent, x->muted_until))
		x->muted_until = a->rcv_nxt + sent;
}

/* Has what a reaction changed arrived? */
LAW void rx_unmute(struct rx *x, const struct rx_ack *a)
{
	if (!x->muted || !law_after(a->rcv_nxt, x->muted_until))
		return;
	x->muted = 0;
	x->waited = 0;
	if (x->law.stage == LE_CUT)
		rx_law_round(x, a);
}

/* A reaction: the window becomes @packets, and no way down or back is under way. */
LAW void rx_set(struct rx *x, const struct rx_ack *a, u32 packets)
{
	x->packets = x->return_to = packets;
	if (!x->avoiding)
		x->noise.noise = 0; /* that of START is its own queue */
	noise_begin(&x->noise);
	x->undoable = 0;
	x->depth = RX_SHALLOW;
	rx_mute(x, a);
	x->avoiding = 1;
}

/* Counts a drain. Is it a deep one (14)? */
LAW bool rx_deep(struct rx *x)
{
	x->drains++;
	return x->drains >= RX_DEEP_FIRST && !(x->drains & (x->drains - 1));
}

/* The first indication: the flow's own part of the queue goes. */
LAW_APART int rx_drain(struct rx *x, const struct rx_ack *a)
{
	struct le_path p;
	u32 to_q8;

	rx_path(x, &p);
	to_q8 = le_drained(&x->law, rx_used_q8(x, a), le_us(x->law.q), 0, &p);
	le_cut(&x->law, to_q8, &p);
	rx_set(x, a, to_q8 >> LE_Q8_SHIFT);
	x->credit = (u64)le_every(&x->law, x->packets, false) * (to_q8 & (LE_ONE - 1)) >>
		    LE_Q8_SHIFT;
	if (rx_deep(x)) {
		x->depth = RX_SINKS;
		x->credit = 0;
	}
	return 0;
}

/* After a judgement that others keep no queue: what a loss took comes back but for an eighth. */
LAW void rx_resume(struct rx *x)
{
	u32 back = (x->law.back_q8 - x->law.back_q8 / LE_FELL) >> LE_Q8_SHIFT;

	if (x->law.of_loss && x->packets < back)
		x->return_to = back;
}

/* START: out of the sender's way, and never far ahead, as nothing can be taken back. */
LAW void rx_start(struct rx *x, const struct rx_ack *a)
{
	u32 ahead = law_min(rx_arriving(x, a), RX_MOST / 4) / 2 * RX_AHEAD;

	x->packets = law_max(ahead, RX_START_WINDOW) / a->mss;
}

/* A deep drain: the window loses a packet for each RX_DEEP that came. */
LAW void rx_sink(struct rx *x, u32 came)
{
	u32 least = x->return_to - x->return_to / RX_DEEP;

	x->credit += came;
	x->packets -= law_min(x->packets, x->credit / RX_DEEP);
	x->credit %= RX_DEEP;
	if (x->packets > least)
		return;
	x->packets = least;
	x->depth = RX_RISES;
}

/* packets that must come for the window to grow by one */
LAW u32 rx_every(const struct rx *x, bool back)
{
	if (!back)
		return le_every(&x->law, x->packets, false) ?: 1;
	return x->depth == RX_RISES ? 2 * RX_RETURN : RX_RETURN;
}

LAW void rx_grow(struct rx *x, const struct rx_ack *a, u32 came)
{
	bool back = x->packets < x->return_to;
	u32 every = rx_every(x, back);

	if (x->law.stage != LE_FREE || !rx_limits(x, a) || rx_bytes(x, a->mss) >= RX_MOST)
		return;
	x->credit += came;
	if (x->credit < every)
		return;
	x->packets += x->credit / every;
	x->credit %= every;
	if (back)
		x->packets = law_min(x->packets, x->return_to);
}

/* Was there no queue at the hole? In SMALL nothing can be said. */
LAW bool rx_no_queue(const struct rx *x)
{
	return !rx_small(x) && x->hole_us < RX_THRESHOLD_US;
}

/* Is a loss chance? There was no queue, and the path has carried one. The sender reduces for it. */
LAW bool rx_chance(const struct rx *x)
{
	bool carries = x->law.fits || le_us(x->law.most) >= RX_CARRIED * RX_THRESHOLD_US;

	return carries && rx_no_queue(x);
}

/* packets: what a loss leaves of @used, where law/le_loss.h leaves @to */
LAW_APART u32 rx_left(struct rx *x, u32 used, u32 to)
{
	if (!x->law.bare || !rx_no_queue(x))
		return to;
	to = law_max(to, used - used / RX_BARE);
	x->law.back_q8 = le_q8(to);
	return to;
}

/* A loss, by the queue that was at the hole. */
LAW_APART enum rx_verdict rx_loss(struct rx *x, const struct rx_ack *a)
{
	u32 used = law_forget(rx_used_q8(x, a) >> LE_Q8_SHIFT), before = x->packets, to;
	bool from_start = law_forget(!x->avoiding), small = law_forget(rx_small(x));
	struct le_path p;

	rx_path(x, &p);
	x->law.last = le_units(x->hole_us);
	x->law.q = law_forget(law_max(x->law.q, x->law.last));
	to = law_forget(le_loss(&x->law, used, false, &p));
	if (rx_small(x)) {
		to = RX_LEAST;
		x->noise.flat = 0;
		x->law.cut_q = 0;
	}
	to = law_forget(rx_left(x, used, to));
	rx_set(x, a, law_min(to, x->packets));
	x->undoable = !small;
	x->from_start = from_start;
	x->before = before;
	return RX_LOSS;
}

/* What was sent again had come before: it was late, and nothing was lost. */
LAW_APART int rx_undo(struct rx *x)
{
	if (!x->undoable || x->law.rounds >= LE_LOST_MOST)
		return 0;
	le_needless(&x->law);
	x->packets = x->return_to = law_max(x->packets, x->before);
	x->avoiding = !x->from_start;
	x->undoable = 0;
	x->muted = 0;
	return 0;
}

LAW enum rx_verdict rx_act(struct rx *x, const struct rx_ack *a, enum le_verdict verdict, u32 came)
{
	if (verdict == LE_DRAIN) {
		rx_drain(x, a);
		return RX_DRAINED;
	}
	if (verdict == LE_YIELD) {
		x->noise.flat = 0;
		rx_set(x, a, RX_LEAST);
		return RX_YIELDED;
	}
	if (verdict == LE_GROW)
		rx_resume(x);
	else if (verdict == LE_BACK)
		rx_return(x);
	else if (law_unlikely(x->depth == RX_SINKS))
		rx_sink(x, came);
	else if (x->avoiding)
		rx_grow(x, a, came);
	else
		rx_start(x, a);
	return RX_GROW;
}

/* Is this the block of a judgement that does not count (6)? There is one at the most. */
LAW bool rx_passes(struct rx *x, const struct le_path *p)
{
	u32 queue_us = le_us(x->law.q), t_us = le_threshold(&x->law, p);

	if (x->law.stage != LE_JUDGE || x->passed || queue_us <= t_us || queue_us > 2 * t_us)
		return false;
	x->passed = 1;
	return true;
}

/* A block has ended: what now? */
LAW_APART enum le_verdict rx_decide(struct rx *x, const struct rx_ack *a)
{
	struct le_path p;

	rx_path(x, &p);
	if (rx_passes(x, &p))
		return LE_GO_ON;
	return le_decide(&x->law, rx_used_q8(x, a), &p);
}

/* An ACK is about to be sent: what the window becomes. */
LAW enum rx_verdict rx_step(struct rx *x, const struct rx_ack *a)
{
	u32 bytes = a->rcv_nxt - x->rcv_nxt + x->part, came = bytes / a->mss;
	bool lost = law_forget(rx_lost(x, a)), round;
	enum le_verdict verdict = LE_GO_ON;

	x->part = bytes % a->mss;
	rx_notice_silence(x, a);
	round = law_forget(rx_round_over(x, a));
	if (law_unlikely(round))
		rx_round(x, a);
	rx_follow(x, a);
	rx_unmute(x, a);
	if (law_forget(rx_measure(x, a, came, round)))
		verdict = law_forget(rx_decide(x, a));
	x->rcv_nxt = a->rcv_nxt;
	if (law_unlikely(a->again))
		rx_undo(x);
	if (law_unlikely(lost && !x->muted && !rx_chance(x)))
		return law_forget(rx_loss(x, a));
	return rx_act(x, a, verdict, came);
}

/* bytes: what this ACK may advertise */
LAW u32 rx_window(struct rx *x, const struct rx_ack *a)
{
	return rx_rounded(rx_bytes(x, a->mss), a);
}

/* Is the flow held back? For the account. */
LAW bool rx_holds(const struct rx *x)
{
	return x->avoiding && x->law.stage != LE_FREE;
}

#endif
