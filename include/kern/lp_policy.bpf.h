/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy of a member of the TCP-LP family: how its window grows, how much a cut or a
 * loss takes, and what its record shows of that. The functions that depend on the policy
 * have it as an argument, the last one, and it is always the address of a constant. So the
 * compiler replaces each call by the policy's function and drops the argument, also that of
 * functions that are not inlined. A call through a pointer would be refused by the verifier.
 */
#ifndef CCBPF_KERN_LP_POLICY_BPF_H
#define CCBPF_KERN_LP_POLICY_BPF_H

#include "kern/lp_state.bpf.h"

struct lp_policy {
	/* packets: what @acked ones count for where a window of them earns one more */
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
