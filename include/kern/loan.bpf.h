/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A loan of the kernel's window. Three mechanisms need snd_cwnd for themselves for a while,
 * one at a time:
 *
 *	CHIRP	lets out one step at a time			(kern/chirp.bpf.h)
 *	PARDON	a CWR that is no congestion: the kernel takes
 *		its cut, the flow keeps its window		(kern/pardon.bpf.h)
 *	PAIRS	two packets per several RTT			(kern/small.bpf.h)
 *
 * Meanwhile the loan holds the flow's own window, and ssthresh as it was. Only the functions
 * here take the window, and every loan ends by loan_return().
 */
#ifndef CCBPF_KERN_LOAN_BPF_H
#define CCBPF_KERN_LOAN_BPF_H

#include "kern/socket.bpf.h"

#define USEC_PER_SEC 1000000

enum loan_to {
	LOAN_NONE,
	LOAN_CHIRP,
	LOAN_PARDON,
	LOAN_PAIRS,
};

struct loan {
	u32 window; /* packets: the flow's own */
	u32 ssthresh; /* packets: when the loan began */
	u8 to; /* enum loan_to */
};

/* packets: the flow's own window, lent or not */
static __always_inline u32 loan_window(struct tcp_sock *tp, struct loan *loan)
{
	return loan->to ? loan->window : tp->snd_cwnd;
}

static __always_inline void loan_take(struct tcp_sock *tp, struct loan *loan, enum loan_to to)
{
	loan->window = tp->snd_cwnd ?: 1;
	loan->ssthresh = tp->snd_ssthresh;
	loan->to = to;
}

/* Set the flow's own window, lent or not, and ssthresh with it. */
static __always_inline void loan_set(struct tcp_sock *tp, struct loan *loan, u32 window)
{
	window = window ?: 1;
	loan->window = window;
	loan->ssthresh = window;
	if (loan->to)
		return;
	tp->snd_cwnd = window;
	tp->snd_ssthresh = window;
}

/* Give the kernel's window the flow's own value again, which its CWR has reduced. */
static __always_inline void loan_hold(struct tcp_sock *tp, struct loan *loan)
{
	tp->snd_cwnd = loan->window ?: 1;
}

/* The loan ends. The borrower may have left any pacing rate: it becomes a window per RTT, until
 * the kernel sets its own at the next ACK. The caller restores ssthresh where it was changed; a
 * chirp never changes it. */
static __always_inline void loan_return(struct sock *sk, struct loan *loan)
{
	struct tcp_sock *tp = tcp_of(sk);
	u64 rate;

	if (!loan->to)
		return;
	loan->to = LOAN_NONE;
	loan_hold(tp, loan);
	rate = (u64)loan->window * tp->mss_cache * USEC_PER_SEC / sock_srtt_us(tp);
	if (rate > sk->sk_max_pacing_rate) /* the application's limit */
		rate = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = rate ?: 1;
}

#endif
