/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sending less than a packet per RTT (law/small_window.h) on the kernel side: pairs of
 * packets, with the kernel's pacing between them. When a window is small, and for how long,
 * is each controller's own decision.
 */
#ifndef CCBPF_KERN_SMALL_BPF_H
#define CCBPF_KERN_SMALL_BPF_H

#include "kern/pace.bpf.h"
#include "law/small_window.h"

#define SMALL_REPAIR 4 /* packets: the least window in a repair after a timeout */

/* packets: the kernel's window after a mark that leaves a small window. It has to be small at the mark:
 * no ACK calls cong_avoid() before the kernel's reduction is over, and while marks go on one
 * reduction follows the other. */
#define SMALL_MARKED 1

/* us between two pairs of a window, base_us: the RTT without a queue */
static __always_inline u32 small_gap(struct tcp_sock *tp, u32 window, u32 spread, u32 base_us)
{
	return small_gap_us(small_gap_rtts(window, tp->mss_cache, spread), base_us);
}

/* The kernel's window while pairs are sent. With a pair in flight it is 1, so that its
 * ACKs do not release single packets. Otherwise it is two pairs: the kernel sends half of its
 * window at once (tcp_cwnd_test(), net/ipv4/tcp_output.c), packets that do not leave at once are
 * paced apart, and the pacing holds the second pair back. (Behind fq the qdisc holds it, so it is in
 * flight, and only every second pair is measured: tests/sim/test_paths.py.) */
static __always_inline void small_pairs(struct tcp_sock *tp)
{
	tp->snd_cwnd = tp->packets_out ? 1 : 2 * SMALL_PAIR;
}

/* The same from the cut on. Packets of the old window may still be in flight: they count, and are not
 * replaced. At a loss or a mark among them the kernel sends in proportion to the window before it
 * (tcp_cwnd_reduction(), net/ipv4/tcp_input.c): if that were 1, one or two packets for each one that
 * arrives. In Disorder the kernel itself replaces them until it knows that the hole is a loss. After a
 * timeout nothing of the old window is left: what was lost is sent again from SMALL_REPAIR packets
 * on. */
static __always_inline void small_keep(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	u8 state = sock_ca_state(sk);

	if (state == TCP_CA_Loss)
		tp->snd_cwnd = law_max(tp->snd_cwnd, SMALL_REPAIR);
	else if (state == TCP_CA_Disorder || (state == TCP_CA_Open && tp->packets_out > 1))
		tp->snd_cwnd = sock_in_flight(tp) ?: 1;
	else if (state == TCP_CA_Open)
		small_pairs(tp);
}

/* Nothing was in flight and the first packets leave. The kernel computes the next departure from
 * the pacing rate right after this event, and overwrites the rate at the next ACK: so here, and
 * only here, a small window is paced. A flow with only one packet to send is not paced: there is
 * no pair, and the ACK of a single packet, which is delayed, would never let the flow leave the
 * small window. Nor is a repair: after a timeout nothing is in flight before each packet that is sent
 * again, and a hundred of them would take a hundred gaps. */
static __always_inline void small_depart(struct sock *sk, u32 gap_us)
{
	struct tcp_sock *tp = tcp_of(sk);
	u64 rate;

	if (tp->write_seq - tp->snd_nxt <= tp->mss_cache || sock_ca_state(sk) > TCP_CA_CWR)
		return;
	rate = small_rate(tp->mss_cache, gap_us);
	if (rate < sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

#endif
