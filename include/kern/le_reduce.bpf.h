/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What le leaves of the window at a loss and at a mark. The kernel asks in ssthresh(), but not
 * where a reduction is under way; what a mark's reduction, or a loss that seemed to be chance,
 * must still give is taken in set_state():
 *
 *	Open, Disorder	-- mark -->	CWR		ssthresh(): takes an eighth, or a half;
 *							of pairs it leaves one packet
 *	Open, Disorder	-- loss -->	Recovery	ssthresh(): a half; the drain where it is chance
 *	Open		-- tail loss -->CWR, Open	ssthresh(): as a loss; a probe has repaired it
 *	CWR		-- loss -->	Recovery, Loss	set_state(): half of the window before the mark
 *	any		-- timeout -->	Loss		set_state(): half, also where it seemed to be chance
 *	Recovery	-- repaired -->	Open, Disorder	set_state(): half, where it seemed to be chance
 *							and more than two packets were lost
 *
 * Source: tcp_enter_recovery(), tcp_enter_loss() and tcp_enter_cwr() of net/ipv4/tcp_input.c.
 */
#ifndef CCBPF_KERN_LE_REDUCE_BPF_H
#define CCBPF_KERN_LE_REDUCE_BPF_H

#include "kern/le_measure.bpf.h"

/* In ssthresh(): is it for a loss, and not for a mark? Where ECN is agreed a tail that a probe has
 * repaired, and a drop at our own device, look like a mark (sock_lost()). They are none if the path has
 * never marked a packet, or if there may be something to undo, which the kernel forgets before a mark
 * (tcp_enter_cwr()). */
static __always_inline bool le_is_for_loss(struct tcp_sock *tp)
{
	return sock_lost(tp) || !tp->delivered_ce || tp->undo_marker;
}

/* A cut begins a round: its end shows what the cut has changed. */
static __always_inline void le_begin_round(struct tcp_sock *tp, struct le_flow *f)
{
	f->noise.end = tp->snd_nxt;
	falls_begin(&f->noise);
}

/* The stage was this before a reduction. */
static __always_inline void le_turned(struct sock *sk, u32 was)
{
	struct le_flow *f = le_of(sk);

	if (was == LE_FREE && f->law.stage == LE_CUT)
		le_begin_round(tcp_of(sk), f);
	if (was != LE_SMALL && le_small(f))
		f->noise.flat = 0;
}

/* Count and report it. @was: the stage before it; @to: packets that are left */
static __always_inline void le_reduced(struct sock *sk, u32 was, bool loss, u32 to)
{
	struct flow_event e = le_now(sk, le_of(sk));

	le_turned(sk, was);
	flow_reduced(sk, &e, loss, to);
	le_fill(sk);
	flow_repairs(sk, to);
}

/* packets: what a loss leaves of @window. @few: it may be chance */
static __noinline u32 le_lose(struct sock *sk, u32 window, u32 few)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	u32 was = law_forget(f->law.stage), to;
	struct le_path p;
	bool chance;

	le_path(f, &p);
	chance = law_forget(few && le_rtt_queue_us(tp, &p) < p.threshold_us &&
			    le_chance(&f->law, sock_in_slow_start(tp), &p));
	to = law_forget(le_loss(&f->law, window, chance, &p));
	if (chance)
		le_seems_alone(&f->law, tp->total_retrans);
	else if (le_rtt_queue_us(tp, &p) > le_threshold(&f->law, &p))
		le_loss_stays(&f->law, to);
	le_reduced(sk, was, true, to);
	return to;
}

/* packets: what a mark leaves */
static __noinline u32 le_be_marked(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	struct le_path p;
	u32 was, to;

	if (noise_turn(&f->noise, tp->snd_una, tp->snd_nxt))
		le_round_ended(sk); /* a mark for each RTT: no other ACK is measured */
	le_path(f, &p);
	was = law_forget(f->law.stage);
	to = law_forget(le_mark(&f->law, tp->snd_cwnd, &p));
	if (le_small(f))
		f->law.paced |= pace_on(sk); /* in CWR no ACK asks for it */
	le_reduced(sk, was, false, to);
	return to;
}

/* In set_state(): is there a loss that ssthresh() has not seen, as it was called for a mark, or one that
 * has left more than half of the window? undo_marker is 0 where the kernel has found that nothing was
 * lost (undo), and where it enters Loss for a smaller MTU. In CWR it tells nothing. */
static __always_inline bool le_is_loss(struct sock *sk, u8 state)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le *l = &le_of(sk)->law;
	u8 before = sock_ca_state(sk);
	bool marked = before == TCP_CA_CWR && state >= TCP_CA_Recovery;
	bool repaired = before == TCP_CA_Recovery && state < TCP_CA_CWR;
	bool many = repaired && le_was_many(l, tp->total_retrans);
	bool more = tp->snd_ssthresh > law_max(tp->prior_cwnd / 2, LE_LEAST);

	if (!l->open)
		return false;
	if (marked)
		return more || !l->of_loss;
	return more && (many || state == TCP_CA_Loss) && tp->undo_marker;
}

/* In set_state(): a loss among pairs of which one was marked. With one packet in flight a repair would
 * take a round trip for each packet. */
static __always_inline void le_repair_pairs(struct sock *sk, u8 state)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (state >= TCP_CA_Recovery && tp->snd_ssthresh < LE_LEAST)
		tp->snd_ssthresh = LE_LEAST;
}

/* A loss takes half. ssthresh() has counted it already, unless a mark came first. */
static __always_inline void le_lose_after_all(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	u32 was = law_forget(f->law.stage), to;
	struct le_path p;

	if (sock_ca_state(sk) == TCP_CA_CWR) {
		to = le_lose(sk, tp->prior_cwnd, false);
	} else {
		le_path(f, &p);
		to = law_forget(le_loss_again(&f->law, tp->prior_cwnd, &p));
		le_turned(sk, was);
		le_event(sk, f, CCBPF_EVENT_LOSS, tp->snd_ssthresh, to);
		le_fill(sk);
		flow_repairs(sk, to);
	}
	tp->snd_ssthresh = law_min(tp->snd_ssthresh, to);
}

#endif
