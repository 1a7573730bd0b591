/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the flows of this controller have done, those that have ended included: by controller, by
 * the cgroup of the socket, and by the rule of `ccbpf assign` that gave it the controller (struct
 * ccbpf_totals of ccbpf/stats.h). Readers are `ccbpf metrics` and Prometheus, whose counters must
 * not fall when a flow ends. The times of one flow are in its record (struct ccbpf_flow_life).
 *
 * It only adds up. No function here writes a flow's state or returns something that a controller
 * uses, so a controller does the same with and without it; tests/lab/report/programs.py relies on
 * that.
 */
#ifndef CCBPF_KERN_TOTALS_BPF_H
#define CCBPF_KERN_TOTALS_BPF_H

#include "kern/flows.bpf.h"
#include "kern/identity.bpf.h"
#include "kern/life.bpf.h"
#include "kern/ruled.bpf.h"
#include "kern/totals_maps.bpf.h"

#define SOCK_DEAD 0 /* include/net/sock.h, enum sock_flags: no program has it any more */

/* Those of a flow with record @f; NULL: it has none. */
static __always_inline struct totals_of totals_here(struct sock *sk, const struct ccbpf_flow *f)
{
	return totals_find(identity.kind, life_cgroup_of(sk), f ? f->life.rule : 0);
}

/* The controller has taken over a flow, whose record @f is new. */
static __noinline int totals_opened(struct sock *sk, struct ccbpf_flow *f)
{
	struct ccbpf_chosen *chosen = bpf_sk_storage_get(&ruled, sk, NULL, 0);
	struct totals_of to;

	life_set_cgroup(f, sk);
	if (chosen)
		life_set_rule(f, chosen);
	to = totals_here(sk, f);
	TOTALS_ADD(to, flows, 1);
	return 0;
}

/* An early indication was acted upon; @to_one: it was a second one. */
static __always_inline void totals_indication(struct sock *sk, bool to_one)
{
	struct totals_of to = totals_here(sk, flow_of(sk));

	TOTALS_ADD(to, indications, 1);
	if (to_one)
		TOTALS_ADD(to, cuts_to_one, 1);
}

/* A reduction by a loss, or by an ECN echo. */
static __noinline int totals_reduced(struct sock *sk, bool loss)
{
	struct totals_of to = totals_here(sk, flow_of(sk));

	if (loss)
		TOTALS_ADD(to, losses, 1);
	else
		TOTALS_ADD(to, marks, 1);
	return 0;
}

/* What the flow did since its record @f was written; nothing if it is a new one. */
static __noinline int totals_add_up(struct tcp_sock *tp, struct ccbpf_flow *f)
{
	u64 bytes = tp->bytes_acked - f->bytes_acked;
	u32 again = tp->total_retrans - f->retransmits;
	struct life_step step = life_step(f, tp->tcp_mstamp * 1000, bytes);
	struct totals_of to;

	if (!f->updated_ns || (!bytes && !again))
		return 0;
	to = totals_here((struct sock *)tp, f);
	TOTALS_ADD(to, bytes_acked, bytes);
	TOTALS_ADD(to, retransmits, again);
	if (!step.sending_ns)
		return 0;
	TOTALS_ADD(to, sending_ns, step.sending_ns);
	TOTALS_ADD(to, yielded_ns, step.yielded_ns);
	return 0;
}

/* Is the socket closed for good? One that is only disconnected may connect anew. */
static __always_inline bool totals_is_last(struct sock *sk)
{
	return sk->__sk_common.skc_state == BPF_TCP_CLOSE &&
	       sk->__sk_common.skc_flags & 1 << SOCK_DEAD;
}

/* The flow ends, or another controller takes it over, whose record has to say the same rule. */
static __always_inline void totals_closed(struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct ccbpf_chosen chosen = {};

	if (!f)
		return;
	totals_add_up(tcp_of(sk), f);
	if (!f->life.rule || totals_is_last(sk))
		return;
	chosen.rule = f->life.rule_id;
	chosen.made_ns = f->life.rule;
	ruled_keep(sk, &chosen);
}

#endif
