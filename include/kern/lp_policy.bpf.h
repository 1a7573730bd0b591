/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy of a member of the TCP-LP family: how its window grows, how much a cut or a
 * loss takes, and what its record shows of that. The functions that depend on the policy
 * have it as their last argument, and it is always the address of a constant. So the compiler
 * replaces each call by the policy's function and drops the argument, also in functions that
 * are not inlined. The verifier would refuse a call through a pointer.
 */
#ifndef CCBPF_KERN_LP_POLICY_BPF_H
#define CCBPF_KERN_LP_POLICY_BPF_H

#include "kern/lp_state.bpf.h"

struct lp_policy {
	/* packets: the credit of @acked packets, where a window of credit adds one packet to the
	 * window */
	u32 (*credit)(struct tcp_sock *tp, struct lp *lp, u32 acked);

	/* packets: what a reducing verdict leaves of the policy's @window */
	u32 (*reduced)(enum inference_verdict verdict, u32 window);

	/* packets: what a loss leaves of the kernel's window, at least 2 */
	u32 (*loss)(struct tcp_sock *tp);

	/* The policy's own part of the record, beside the family's. */
	void (*fill)(struct tcp_sock *tp, struct lp *lp, struct ccbpf_flow *f);
};

/* --- TCP-LP's ----------------------------------------------------------- */

static __always_inline u32 lp_credit(struct tcp_sock *tp, struct lp *lp, u32 acked)
{
	return acked;
}

static __always_inline void lp_fill_none(struct tcp_sock *tp, struct lp *lp, struct ccbpf_flow *f)
{
}

static const struct lp_policy tcp_lp_policy = {
	.credit = lp_credit,
	.reduced = inference_reduced,
	.loss = sock_reno_ssthresh,
	.fill = lp_fill_none,
};

#endif
