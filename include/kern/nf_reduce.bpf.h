/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a mark or a loss takes of NF-TCP's window (NF-TCP paper, 3.1).
 *
 *	mark	w -= b w (eq. 2). b doubles with each mark from the first unmarked RTT
 *		after slow start on, up to decrease_most, and halves with each unmarked RTT
 *	loss	w / 2
 *	both	a chirp ends, a loan ends (but not that of pairs), the estimate is void
 *
 * A single mark: after an RTT without another one eq. 7 goes back to a part of the window
 * that was marked (`back`). A mark at two packets: pairs (kern/nf_small.bpf.h).
 */
#ifndef CCBPF_KERN_NF_REDUCE_BPF_H
#define CCBPF_KERN_NF_REDUCE_BPF_H

#include "kern/nf_small.bpf.h"
#include "kern/probe.bpf.h"

/* A mark or a loss, when the flow had `window`. One in the first slow start only shows that the
 * window went too far, so the next chirp does not wait for its pause. In any slow start the
 * bursts were too much, so the window is no bound of the estimate. */
static __always_inline void nf_congested(struct sock *sk, struct nf *nf, u32 window)
{
	bool slow_start = sock_in_slow_start(tcp_of(sk));

	nf_soiled(tcp_of(sk), nf);
	if (!nf->avoiding)
		nf->due_us = 0;
	nf->avoiding = 1;
	probe_void(sk, slow_start ? ~0u : nf_has_kbps(sk, window));
}

/* Eq. 2. Returns packets: what is left of the window. */
static __always_inline u32 nf_marked(struct sock *sk, struct nf *nf, u32 window)
{
	u32 b = param_decrease(), most = param_decrease_most();
	u32 left = nf_cut(window, nf_decrease(b, most, nf->row));
	struct ccbpf_flow *f = flow_of(sk);

	flow_count(indications);
	totals_indication(sk, false);
	if (f)
		f->indications++;
	if (nf->calm)
		nf->row = nf_row(b, most, nf->row);
	return left;
}

/* A single mark: after an RTT without another one eq. 7 goes back to a part of the window
 * that was marked. */
static __always_inline void nf_go_back(struct nf *nf, u32 window, u32 left)
{
	nf->target = nf_back(window, param_back());
	nf->share_q8 = nf_missing_q8(left, nf->target);
}

/* No chirp for some round trips. */
static __always_inline void nf_rest(struct sock *sk, struct nf *nf)
{
	u64 until_us = tcp_of(sk)->tcp_mstamp + nf_rest_us(nf);

	if (nf->due_us < until_us)
		nf->due_us = until_us;
}

/* The answer to a mark or a loss. @window: packets, the window that it is taken from.
 * Returns packets: what is left of it. */
static __noinline u32 nf_reduce(struct sock *sk, u32 window, bool loss)
{
	struct nf *nf = nf_of(sk);
	bool mark = law_forget(!loss && nf->echo == NF_ECHO_DATA);
	bool small = law_forget(nf_small(nf));
	bool single = law_forget(!nf->row && nf->avoiding);
	bool below = law_forget(nf->estimated ? nf->target > window : nf->promised);
	struct flow_event e;
	u32 to;

	if (nf->chirp.phase != CHIRP_NONE)
		probe_discard(sk, loss ? CCBPF_CHIRP_LOSS : CCBPF_CHIRP_MARK);
	if (!small)
		loan_return(sk, &nf->loan);
	to = law_forget(mark ? nf_marked(sk, nf, window) : nf_half(window));
	e = nf_now(nf);
	flow_reduced(sk, &e, loss, to);
	nf_congested(sk, nf, window);
	if (loss && !nf->marked && nf->bare < NF_BARE_MOST)
		nf->bare++;
	if (loss && below)
		probe_doubt(sk);
	if (loss)
		nf_rest(sk, nf);
	if (mark && single)
		nf_go_back(nf, window, to);
	if (mark && window <= NF_LEAST && !small)
		nf_small_enter(sk);
	nf->promised = mark && below;
	nf->loss_cwnd = loss ? window : 0;
	nf->before = mark ? window : 0;
	return to;
}

#endif
