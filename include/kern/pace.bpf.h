/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own pacing, switched on and off for a flow (net/ipv4/tcp_output.c,
 * tcp_pacing_check()): 120 % of a window per RTT in avoidance, 200 % in slow start.
 *
 * A background flow is paced because bursts are felt: an ACK that waited behind
 * others' data in the reverse path comes together with the next ones, and each of
 * them lets packets go. Soon the whole window is one burst per RTT, a queue of its
 * own making, which hurts who comes next and which reads as congestion. Where the
 * RTT is short a burst is as well, and timers would cost more than they give.
 */
#ifndef CCBPF_KERN_PACE_BPF_H
#define CCBPF_KERN_PACE_BPF_H

#include "kern/socket.bpf.h"
#include "law/fixed.h"

/* Pacing, where nobody does it yet; true: it is ours. */
static __always_inline bool pace_on(struct sock *sk)
{
	if (sk->sk_pacing_status != SK_PACING_NONE)
		return false;
	sk->sk_pacing_status = SK_PACING_NEEDED;
	return true;
}

/* Pacing as it was; but where fq took it over meanwhile, it is fq's. Not before
 * the next departure that a gap has set: without pacing the kernel would send at
 * once and stamp the packets with that time, which is still to come, and every
 * round trip until then would read too short. True: done. */
static __always_inline bool pace_off(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (tp->tcp_wstamp_ns > tp->tcp_clock_cache)
		return false;
	if (sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
	return true;
}

/* Pacing as it is wanted; @ours and the result: we switched it on. */
static __always_inline bool pace_keep(struct sock *sk, bool ours, bool wanted)
{
	if (law_likely(ours == wanted))
		return ours;
	return wanted ? pace_on(sk) : !pace_off(sk);
}

#endif
