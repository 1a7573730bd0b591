/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The TCP-LP family's part of a record in `flows`: the state as others see it, written when
 * it is due.
 */
#ifndef CCBPF_KERN_LP_RECORD_BPF_H
#define CCBPF_KERN_LP_RECORD_BPF_H

#include "kern/lp_policy.bpf.h"

static __always_inline enum ccbpf_phase lp_phase(struct sock *sk, struct lp *lp)
{
	if (sock_ca_state(sk) >= TCP_CA_CWR)
		return CCBPF_PHASE_RECOVERY;
	if (lp->window)
		return CCBPF_PHASE_SMALL;
	if (lp->avoiding && lp->inference.active)
		return CCBPF_PHASE_INFERENCE;
	return flow_phase(tcp_of(sk));
}

static __always_inline void lp_fill_delay(struct tcp_sock *tp, struct lp *lp, struct ccbpf_flow *f)
{
	s32 rtt_min = aged_min(&lp->delay.rtt);
	struct delay_params p;

	lp_delay_params(lp, &p);
	f->delay_source = lp->signal;
	f->rtt_us = sock_rtt_us(tp);
	f->rtt_min_us = rtt_min == AGED_NO_MIN ? 0 : rtt_min;
	f->delay_us = lp->queue_us;
	f->delay_smoothed_us = delay_smoothed(&lp->delay);
	f->delay_threshold_us = delay_threshold(&lp->delay, &p);
	f->delay_max_us = delay_queue_max(&lp->delay);
	f->delay_base_us = lp->delay.tick_ns ? aged_min(&lp->delay.owd) : 0;
}

static __noinline int lp_fill(struct sock *sk, const struct lp_policy *policy)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	if (!f)
		return 0;
	flow_fill(tp, f);
	lp_fill_delay(tp, lp, f);
	f->phase = lp_phase(sk, lp);
	f->lp.window = lp_window(tp, lp);
	f->lp.pair_gap_us = lp->window ? lp_gap_us(tp, lp) : 0;
	f->lp.inference_left_us = lp->avoiding ? inference_left_us(&lp->inference, tp->tcp_mstamp)
					       : 0;
	f->lp.peer_tick_ns = lp->delay.tick_ns;
	policy->fill(tp, lp, f);
	return 0;
}

static __always_inline void lp_publish(struct sock *sk, struct lp *lp,
				       const struct lp_policy *policy)
{
	if (law_unlikely(flow_due(tcp_of(sk), &lp->published_kius)))
		lp_fill(sk, policy);
}

static __noinline int lp_publish_repair(struct sock *sk, u32 ssthresh,
					const struct lp_policy *policy)
{
	lp_fill(sk, policy);
	flow_repairs(sk, ssthresh);
	return 0;
}

#endif
