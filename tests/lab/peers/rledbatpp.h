/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * LEDBAT++ at the receiver: the law of ledbatpp.h, as it is, on the window that a receiver
 * advertises. M. Bagnulo, A. Garcia-Martinez, G. Montenegro, P. Balasubramanian: "rLEDBAT:
 * Receiver-Driven Low Extra Delay Background Transport for TCP", RFC 9840, 2025; section numbers
 * are of it. A peer of the labs' rows beside law/rx_window.h. It is not part of the product.
 *
 * Called when an ACK is about to be sent, with what law/rx_window.h is called with:
 *
 *	measure	 RTT = our clock - TSecr, where data brings a TSecr that is newer than all before	(4.2.1)
 *		 the base and the current delay of it: ledbatpp.h
 *	loss	 a hole is filled by a packet with a later TSval than the first one behind it	(4.3)
 *		 w = w/2, once per RTT
 *	act	 what arrived in order is acknowledged by this ACK: LEDBAT++'s step with it	(4.1)
 *	answer	 w in bytes, a multiple of the window scale's unit, at least 2 MSS		(4.1.2)
 *
 * Where the RFC leaves it open:
 *
 *  1. Of its two delays the RTT is taken, because LEDBAT++ takes the RTT. So a queue on the way
 *     back counts as one of the download.
 *  2. What was advertised is never taken back (4.1.1). The caller sees to it: the kernel does, and
 *     the simulator. A decrease's RTT ends when data answers an ACK that was sent after it. Until
 *     then nothing grows, no round of the new window is counted, and a loss is not another one.
 *  3. It begins with 2 packets. What the kernel has advertised before, up to 64 kB, stays.
 *  4. The RTT of a slowdown's times is the current delay, the smallest of the last four: a pause
 *     of the sender makes a single RTT long, because its data echoes an old timestamp.
 *  5. The window grows only where it is what limits the flow: a round trip that brings less than
 *     half of it is limited by the sender or the application. One with a hole does not count.
 *  6. A timeout of the sender is not seen. The retransmission after it is a loss.
 *  7. Our TSval ticks in ms, and the RTT is at least one tick.
 *  8. An ACK may answer two packets; the TSecr is that of the second one.
 */
#ifndef CCBPF_TESTS_RLEDBATPP_H
#define CCBPF_TESTS_RLEDBATPP_H

#include "law/rx_delay.h"
#include "tests/lab/peers/ledbatpp.h"

#define RLEDBATPP_US_PER_MS 1000

struct rledbatpp {
	struct ledbatpp l;
	u32 rcv_nxt; /* of the last ACK */
	u32 part; /* bytes that arrived and are not a whole segment */
	u32 tsecr; /* our clock: the newest that came back */
	u32 round_seq, round_ts; /* this round trip's beginning */
	u32 flight; /* bytes of the last round trip */
	u32 cut_ts; /* our clock: of the last decrease */
	u32 hole_ts; /* TSval of what arrived first behind a hole */
	u8 started;
	u8 cut; /* this is the RTT of that decrease */
	u8 hole;
	u8 holed; /* there was a hole in this round trip: what it brings is not its rate */
};

LAW u32 rledbatpp_now_ms(const struct rx_ack *a)
{
	return a->long_us / RLEDBATPP_US_PER_MS;
}

LAW void rledbatpp_begin(struct rledbatpp *x, const struct rx_ack *a)
{
	ledbatpp_begin(&x->l, false, rledbatpp_now_ms(a));
	x->l.window = LEDBATPP_LEAST;
	x->l.ssthresh = LEDBATPP_WINDOW_MAX;
	x->rcv_nxt = x->round_seq = a->rcv_nxt;
	x->tsecr = a->tsecr;
	x->round_ts = a->our_ts;
	x->part = x->flight = 0;
	x->cut = x->hole = x->holed = 0;
	x->started = 1;
}

/* --- measure ----------------------------------------------------------- */

/* Did this ACK's newest packet bring an RTT? */
LAW bool rledbatpp_measure(struct rledbatpp *x, const struct rx_ack *a)
{
	u32 ticks = law_clamp(a->our_ts - a->tsecr, 1, LEDBATPP_RTT_MAX_US / RX_TICK_US);

	if (!a->fresh || !law_after(a->tsecr, x->tsecr))
		return false;
	x->tsecr = a->tsecr;
	ledbatpp_sample(&x->l, ticks * RX_TICK_US, rledbatpp_now_ms(a));
	return true;
}

/* us: the current delay; before the first RTT that of the handshake */
LAW u32 rledbatpp_rtt_us(const struct rledbatpp *x, const struct rx_ack *a)
{
	u32 base_us = ledbatpp_base_us(&x->l);

	return base_us == LEDBATPP_NONE ? a->rtt_us : base_us + ledbatpp_queue_us(&x->l);
}

/* Our timestamp of the round trip's beginning came back, with new data. */
LAW void rledbatpp_round(struct rledbatpp *x, const struct rx_ack *a)
{
	if (law_after(x->round_ts, a->tsecr) || a->rcv_nxt == x->rcv_nxt)
		return;
	if (!x->holed)
		x->flight = a->rcv_nxt - x->round_seq;
	x->round_seq = a->rcv_nxt;
	x->round_ts = a->our_ts;
	x->holed = a->hole;
}

/* bytes: what this round trip has brought so far, or the last one */
LAW u32 rledbatpp_arriving(const struct rledbatpp *x, const struct rx_ack *a)
{
	return law_max(x->flight, a->rcv_nxt - x->round_seq);
}

/* Was a hole just filled, wholly or in part, by a packet that was sent again? */
LAW bool rledbatpp_lost(struct rledbatpp *x, const struct rx_ack *a)
{
	bool filled = x->hole && a->rcv_nxt != x->rcv_nxt;
	bool lost = filled && law_after(a->tsval, x->hole_ts);

	if (a->hole && (!x->hole || filled))
		x->hole_ts = a->tsval;
	x->hole = a->hole;
	x->holed |= a->hole;
	return lost;
}

/* --- act --------------------------------------------------------------- */

/* bytes: LEDBAT++'s window */
LAW u32 rledbatpp_bytes(const struct rledbatpp *x, const struct rx_ack *a)
{
	u64 bytes = ledbatpp_whole(&x->l) * a->mss / LEDBATPP_ONE;

	return bytes < RX_MOST ? bytes : RX_MOST;
}

/* A decrease: until its ACK is answered there is no other. */
LAW void rledbatpp_cut(struct rledbatpp *x, const struct rx_ack *a)
{
	x->cut = 1;
	x->cut_ts = a->our_ts;
}

LAW void rledbatpp_halve(struct rledbatpp *x, const struct rx_ack *a)
{
	x->l.window = law_min(x->l.window, ledbatpp_loss(&x->l));
	x->l.fraction = 0;
	rledbatpp_cut(x, a);
}

/* segments that arrived in order, of those that count */
LAW u32 rledbatpp_acked(struct rledbatpp *x, const struct rx_ack *a)
{
	u32 bytes = x->part + (a->rcv_nxt - x->rcv_nxt), mss = law_max(a->mss, 1);

	if (x->cut)
		bytes = 0;
	x->part = bytes % mss;
	return bytes / mss;
}

/* An ACK is about to be sent. */
LAW void rledbatpp_step(struct rledbatpp *x, const struct rx_ack *a)
{
	u32 least = LEDBATPP_LEAST * a->mss, acked;
	bool lost = rledbatpp_lost(x, a), grows;
	u64 before;

	rledbatpp_measure(x, a);
	rledbatpp_round(x, a);
	if (x->cut && law_after(a->tsecr, x->cut_ts))
		x->cut = 0;
	if (lost && !x->cut)
		rledbatpp_halve(x, a);
	acked = rledbatpp_acked(x, a);
	grows = 2 * rledbatpp_arriving(x, a) + least >= rledbatpp_bytes(x, a);
	before = ledbatpp_whole(&x->l);
	ledbatpp_ack(&x->l, acked, grows, rledbatpp_rtt_us(x, a), rledbatpp_now_ms(a));
	if (ledbatpp_whole(&x->l) < before)
		rledbatpp_cut(x, a);
	x->rcv_nxt = a->rcv_nxt;
}

/* bytes: what this ACK may advertise */
LAW u32 rledbatpp_window(const struct rledbatpp *x, const struct rx_ack *a)
{
	return law_max(rledbatpp_bytes(x, a) & ~(a->unit - 1), LEDBATPP_LEAST * a->mss);
}

#endif
