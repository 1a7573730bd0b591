/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NF-TCP's record in `flows`: the state as others see it, written when it is due. The
 * pacing is switched on and off at the same time.
 */
#ifndef CCBPF_KERN_NF_RECORD_BPF_H
#define CCBPF_KERN_NF_RECORD_BPF_H

#include "kern/estimate.bpf.h"
#include "kern/pace.bpf.h"

static __always_inline enum ccbpf_phase nf_phase(struct sock *sk, struct nf *nf)
{
	if (nf_small(nf) && sock_ca_state(sk) <= TCP_CA_CWR)
		return CCBPF_PHASE_SMALL;
	if (sock_ca_state(sk) >= TCP_CA_CWR && !pardon_given(nf))
		return CCBPF_PHASE_RECOVERY;
	return flow_phase(tcp_of(sk));
}

static __noinline int nf_fill(struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf->stored ? probe_of(sk) : NULL;

	if (p)
		probe_refresh(sk, nf, p);
	if (!f)
		return 0;
	flow_fill(tp, f);
	f->cwnd = loan_window(tp, &nf->loan);
	f->phase = nf_phase(sk, nf);
	f->delay_source = sock_ecn(tp) ? CCBPF_SIGNAL_ECN : CCBPF_SIGNAL_RTT;
	f->rtt_us = nf->rtt_us;
	f->rtt_min_us = nf_base_us(nf);
	f->delay_us = nf_queue_us(nf);
	f->nf.target = nf->target;
	f->nf.share_milli = (u64)nf->share_q8 * 1000 >> NF_SHARE_SHIFT;
	f->nf.dscp = nf->dscp == DSCP_UNKNOWN ? 0 : nf->dscp;
	f->nf.chirping = nf->chirp.phase != CHIRP_NONE;
	f->nf.chirps_wait = nf->waits;
	f->nf.estimate_age_ms = ~0u;
	if (p)
		probe_fill(p, tp->tcp_mstamp >> KIUS_SHIFT, &f->nf);
	return 0;
}

static __always_inline void nf_publish(struct sock *sk, struct nf *nf)
{
	if (law_likely(!flow_due(tcp_of(sk), &nf->published_kius)))
		return;
	nf_fill(sk);
	nf->paced = pace_keep(sk, nf->paced,
			      nf->stored || nf_small(nf) || nf_base_us(nf) >= param_pace_rtt());
}

#endif
