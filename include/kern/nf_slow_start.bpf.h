/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NF-TCP's slow start, and how it ends without a loss or a mark: at an estimate
 * (kern/estimate.bpf.h), at a window that is no limit while the delay is high
 * (law/gentle_start.h), or with gentle_start when the delay rises. In the first slow
 * start the packets behind a high delay are counted: a queue that nobody marks is a
 * reason for a chirp (kern/probe.bpf.h).
 */
#ifndef CCBPF_KERN_NF_SLOW_START_BPF_H
#define CCBPF_KERN_NF_SLOW_START_BPF_H

#include "kern/nf.bpf.h"

/* Slow start is over, at this window. */
static __noinline int nf_leave_slow_start(struct sock *sk, u32 window)
{
	struct nf *nf = nf_of(sk);

	nf->avoiding = 1;
	loan_set(tcp_of(sk), &nf->loan, window);
	nf_event(sk, nf, CCBPF_EVENT_SLOW_START_END, nf->rtt_us, gentle_base_us(&nf->gentle));
	return 0;
}

static __noinline int nf_gentle_left(struct sock *sk)
{
	return nf_leave_slow_start(sk, tcp_of(sk)->snd_cwnd);
}

/* An ACK in the first slow start: counts the packets in a row that met a high delay and no
 * mark. */
static __always_inline void nf_queued(struct nf *nf, u32 acked)
{
	bool high = nf->rtt_us && nf->rtt_us >= gentle_start_limit_us(&nf->gentle);

	if (nf->chirp.phase != CHIRP_NONE)
		return; /* the chirp has emptied the queue */
	nf->queued = high ? law_min(nf->queued + law_min(acked, 0xffff), 0xffff) : 0;
}

static __always_inline u32 nf_slow_start(struct sock *sk, struct nf *nf, u32 acked)
{
	u32 left =
		gentle_slow_start(sk, nf, nf->rtt_us, param_gentle_start(), nf_gentle_left, acked);

	if (!nf->avoiding)
		nf_queued(nf, acked);
	return left;
}

#endif
