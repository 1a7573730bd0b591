/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NF-TCP's windows below two packets. Eq. 2 ends at two packets; a mark there makes pairs
 * of packets leave 8 RTT apart (law/small_window.h), until one pair comes back without a
 * mark. The window is lent meanwhile (LOAN_PAIRS).
 */
#ifndef CCBPF_KERN_NF_SMALL_BPF_H
#define CCBPF_KERN_NF_SMALL_BPF_H

#include "kern/nf.bpf.h"
#include "kern/pace.bpf.h"
#include "kern/small.bpf.h"

#define NF_SMALL_SPREAD 4 /* RTT in which a window of one leaves: half a pair */

static __always_inline u32 nf_gap_us(struct sock *sk, struct nf *nf)
{
	struct tcp_sock *tp = tcp_of(sk);

	return small_gap(tp, nf->loan.window, NF_SMALL_SPREAD, nf_base_us(nf) ?: sock_srtt_us(tp));
}

/* A mark at a window that eq. 2 reduces no more: pairs of packets leave apart. */
static __noinline int nf_small_enter(struct sock *sk)
{
	struct nf *nf = nf_of(sk);

	loan_take(tcp_of(sk), &nf->loan, LOAN_PAIRS);
	nf->loan.window = 1;
	nf->paced |= pace_on(sk);
	nf_event(sk, nf, CCBPF_EVENT_SMALL_ENTER, nf_gap_us(sk, nf), 0);
	return 0;
}

static __always_inline void nf_small_return(struct sock *sk, struct nf *nf)
{
	nf->loan.to = LOAN_NONE;
	tcp_of(sk)->snd_cwnd = NF_LEAST;
}

/* An ACK without a mark. It counts when it is of a whole pair. One of half a pair, or of a
 * packet that was sent before the last mark or retransmitted, says nothing. */
static __noinline int nf_small_act(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);

	if (sock_ca_state(sk) != TCP_CA_Open)
		return 0;
	small_pairs(tp);
	if (tp->packets_out || !nf->clean)
		return 0;
	nf_small_return(sk, nf);
	nf_event(sk, nf, CCBPF_EVENT_SMALL_LEAVE, NF_LEAST, 0);
	return 0;
}

#endif
