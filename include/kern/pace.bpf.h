/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own pacing, switched on and off for a flow (net/ipv4/tcp_output.c,
 * tcp_pacing_check()): 120 % of a window per RTT in avoidance, 200 % in slow start.
 *
 * A background flow is paced because its bursts delay the foreground. ACKs that waited behind other
 * flows' data in the reverse path arrive together, and each of them releases packets. Soon
 * the whole window is one burst per RTT: a queue that the flow itself causes, which delays the
 * packets that come next and looks like congestion. Where the RTT is short a burst is short as
 * well, and timers would cost more than they gain.
 */
#ifndef CCBPF_KERN_PACE_BPF_H
#define CCBPF_KERN_PACE_BPF_H

#include "kern/socket.bpf.h"
#include "law/fixed.h"

#define PACE_EVEN_NUM 21 /* 105 % of a window per RTT */
#define PACE_EVEN_DEN 20
#define PACE_WINDOW_MAX (1u << 23) /* packets */
#define PACE_UNBOUNDED (~0ul) /* sk_max_pacing_rate that nobody has set */
#define PACE_SRTT_S 8000000ull /* a second in srtt_us's unit */

/* Switch pacing on, unless it is on already; true: we switched it on. */
static __always_inline bool pace_on(struct sock *sk)
{
	if (sk->sk_pacing_status != SK_PACING_NONE)
		return false;
	sk->sk_pacing_status = SK_PACING_NEEDED;
	return true;
}

/* Switch pacing off again, unless fq has taken it over meanwhile, or the application has set
 * SO_MAX_PACING_RATE since, which needs pacing. Not before the next departure that a gap has
 * set: without pacing the kernel would send at once and stamp the packets with that time,
 * which is still to come, and every round trip until then would read too short. So a flow
 * that changes its controller between two packets stays paced. True: done. */
static __always_inline bool pace_off(struct sock *sk)
{
	if (tcp_of(sk)->tcp_wstamp_ns > bpf_ktime_get_ns())
		return false;
	if (sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == PACE_UNBOUNDED)
		sk->sk_pacing_status = SK_PACING_NONE;
	return true;
}

/* Switch pacing on or off, as @wanted. @ours and the result: we have switched it on. */
static __always_inline bool pace_keep(struct sock *sk, bool ours, bool wanted)
{
	if (law_likely(ours == wanted))
		return ours;
	return wanted ? pace_on(sk) : !pace_off(sk);
}

/* Pace evenly, in avoidance. At 120 % a window leaves in five sixths of the RTT and nothing
 * leaves in the last sixth, and the ACKs repeat that pattern for ever. Beside flows that leave
 * less than these 20 % free, a flow makes a queue in every RTT in this way, even if it has less
 * than its share. To be called in min_tso_segs(), because the kernel sets its own rate at each
 * ACK. Ranges: below 2^16 bytes, 2^23 packets and 2^23 / 20 * 21. */
static __always_inline void pace_even(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 window = law_min(law_max(tp->snd_cwnd, tp->packets_out), PACE_WINDOW_MAX);
	u64 rate;

	if (sk->sk_pacing_status == SK_PACING_NONE || sock_in_slow_start(tp) || !tp->srtt_us)
		return;
	rate = (u64)law_min(tp->mss_cache, 0xffff) * window * PACE_SRTT_S / PACE_EVEN_DEN *
	       PACE_EVEN_NUM / tp->srtt_us;
	if (rate < sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate ?: 1;
}

#endif
