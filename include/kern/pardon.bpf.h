/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ownership of the kernel's CWR. The kernel enters CWR at any ECE and calls
 * ssthresh() once. Until CWR is over it calls ssthresh() for no further mark, nor when a
 * loss turns CWR into recovery. So NF-TCP keeps track of what the CWR is for:
 *
 *   ECE of a chirp's packet -> PARDON: the window is lent, eq. 7 and 8 go on with it
 *        |-- ECE of data       the pardon is refused: eq. 2      (in_ack_event())
 *        |-- recovery, RTO     the pardon is refused: half       (set_state())
 *        +-- COMPLETE_CWR      the window and ssthresh come back
 *
 *   ECE of data -> eq. 2, and `before` keeps the window that was marked
 *        |-- recovery, RTO     it was a loss: half of `before`   (set_state())
 *        +-- COMPLETE_CWR      over
 *
 * Without the last rule each loss would cost only an eighth with a receiver that sets ECE
 * whenever it sends SACK, and also where an honest mark comes just before a loss.
 */
#ifndef CCBPF_KERN_PARDON_BPF_H
#define CCBPF_KERN_PARDON_BPF_H

#include "kern/nf_record.bpf.h"
#include "kern/nf_reduce.bpf.h"

/* In ssthresh(), for a mark on a chirp's packet. Returns packets: what the kernel shall
 * reduce to. */
static __always_inline u32 pardon_begin(struct sock *sk, struct nf *nf)
{
	struct tcp_sock *tp = tcp_of(sk);

	nf->before = 0;
	nf->delivered = tp->delivered;
	loan_take(tp, &nf->loan, LOAN_PARDON);
	return nf->loan.window;
}

/* An ACK in such a CWR: cong_avoid() is not called, and the flow's own window grows
 * nevertheless. */
static __always_inline void pardon_act(struct sock *sk, struct nf *nf)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 acked = tp->delivered - nf->delivered;

	nf->delivered = tp->delivered;
	if (pardon_given(nf) && nf->loan.window >= nf->loan.ssthresh && sock_cwnd_limited(tp))
		nf->loan.window = nf_grown(tp, nf, nf->loan.window, acked);
}

/* packets: the window that a loss in the kernel's CWR is to be taken from; 0: the kernel
 * has called ssthresh() for this loss */
static __always_inline u32 pardon_lost(struct sock *sk, struct nf *nf)
{
	if (pardon_given(nf))
		return nf->loan.window;
	return nf->before;
}

/* Another mark, on data, in the CWR of a chirp's mark: the kernel does not call ssthresh(), and
 * PRR does not carry out this cut. */
static __noinline int pardon_refuse(struct sock *sk)
{
	struct nf *nf = nf_of(sk);

	sock_cut_cwnd(tcp_of(sk), nf_reduce(sk, nf->loan.window, false));
	nf->echo = NF_ECHO_ANSWERED;
	return 0;
}

/* The connection changes to another state: recovery or a timeout, in the CWR of a mark. The
 * kernel does not call ssthresh() for it. After a timeout it has set its window before it calls
 * us, and that window stays; in a mark's CWR it has reduced the window already. */
static __always_inline void pardon_broken(struct sock *sk, struct nf *nf, u8 state)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 cwnd = tp->snd_cwnd, ssthresh = tp->snd_ssthresh, window, to;
	bool pardoned = pardon_given(nf);

	window = pardon_lost(sk, nf);
	if (state < TCP_CA_Recovery || !nf->open || !window)
		return;
	to = nf_reduce(sk, window, true);
	if (!pardoned) /* a mark's cut never comes back */
		nf->loss_cwnd = law_min(window, ssthresh);
	tp->snd_ssthresh = to;
	if (!pardoned || state == TCP_CA_Loss)
		tp->snd_cwnd = cwnd ?: 1;
	nf_fill(sk);
	flow_repairs(sk, to);
}

/* COMPLETE_CWR: the window and ssthresh that the kernel has reduced come back. If this ACK also
 * carries a mark that was answered in this CWR, the kernel enters the next CWR with it, so
 * `before` stays. */
static __always_inline void pardon_end(struct sock *sk, struct nf *nf)
{
	if (pardon_given(nf)) {
		loan_return(sk, &nf->loan);
		tcp_of(sk)->snd_ssthresh = nf->loan.ssthresh;
	} else if (nf->echo != NF_ECHO_ANSWERED) {
		nf->before = 0;
	}
}

#endif
