/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the flows of this controller have done, those that have ended included: by controller, and
 * by the cgroup of the socket (struct ccbpf_totals of ccbpf/stats.h). Readers are `ccbpf metrics` and
 * Prometheus, whose counters must not fall when a flow ends.
 *
 * It only adds up. No function here writes a flow's state or returns something that a controller
 * uses, so a controller does the same with and without it; tests/lab/report/programs.py relies on
 * that.
 *
 * Additions are atomic: a unit's flows are on all CPUs, and a softirq may count on the same CPU in
 * the middle of a close().
 */
#ifndef CCBPF_KERN_TOTALS_BPF_H
#define CCBPF_KERN_TOTALS_BPF_H

#include "ccbpf/stats.h"
#include "kern/flows.bpf.h"
#include "kern/identity.bpf.h"
#include "law/fixed.h"

#define TOTALS_GAP_MOST_NS 2000000000 /* more is a pause of the application */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CCBPF_KINDS);
	__type(key, __u32);
	__type(value, struct ccbpf_totals);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CCBPF_UNITS_MOST);
	__type(key, struct ccbpf_unit_key);
	__type(value, struct ccbpf_totals);
} unit_totals SEC(".maps");

static __always_inline struct ccbpf_totals *totals_all(void)
{
	u32 kind = identity.kind;

	return bpf_map_lookup_elem(&totals, &kind);
}

static __noinline struct ccbpf_totals *totals_unit(struct sock *sk)
{
	struct ccbpf_unit_key key = { .kind = identity.kind };
	struct ccbpf_totals none = {}, *unit;
	struct cgroup *cgroup;

	if (!bpf_core_field_exists(sk->sk_cgrp_data)) /* a kernel without CONFIG_SOCK_CGROUP_DATA */
		return NULL;
	cgroup = sk->sk_cgrp_data.cgroup;
	if (!cgroup)
		return NULL;
	key.cgroup = BPF_CORE_READ(cgroup, kn, id);
	unit = bpf_map_lookup_elem(&unit_totals, &key);
	if (law_likely(unit))
		return unit;
	bpf_map_update_elem(&unit_totals, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&unit_totals, &key);
}

#define TOTALS_ADD(all, unit, counter, n)                          \
	do {                                                       \
		if (all)                                           \
			__sync_fetch_and_add(&(all)->counter, n);  \
		if (unit)                                          \
			__sync_fetch_and_add(&(unit)->counter, n); \
	} while (0)

/* The controller has taken over a flow. */
static __noinline int totals_opened(struct sock *sk)
{
	struct ccbpf_totals *all = totals_all(), *unit = totals_unit(sk);

	TOTALS_ADD(all, unit, flows, 1);
	return 0;
}

/* An early indication was acted upon; @to_one: it was a second one. */
static __always_inline void totals_indication(struct sock *sk, bool to_one)
{
	struct ccbpf_totals *all = totals_all(), *unit = totals_unit(sk);

	TOTALS_ADD(all, unit, indications, 1);
	if (to_one)
		TOTALS_ADD(all, unit, cuts_to_one, 1);
}

/* A reduction by a loss, or by an ECN echo. */
static __noinline int totals_reduced(struct sock *sk, bool loss)
{
	struct ccbpf_totals *all = totals_all(), *unit = totals_unit(sk);

	if (loss)
		TOTALS_ADD(all, unit, losses, 1);
	else
		TOTALS_ADD(all, unit, marks, 1);
	return 0;
}

static __always_inline bool totals_gives_way(const struct ccbpf_flow *f)
{
	return f->phase == CCBPF_PHASE_INFERENCE || f->phase == CCBPF_PHASE_SMALL ||
	       f->phase == CCBPF_PHASE_RECOVERY;
}

/* What the flow did since its record @f was written; nothing if it is a new one. */
static __noinline int totals_add_up(struct tcp_sock *tp, const struct ccbpf_flow *f)
{
	u64 bytes = tp->bytes_acked - f->bytes_acked;
	u64 passed_ns = tp->tcp_mstamp * 1000 - f->updated_ns;
	u32 again = tp->total_retrans - f->retransmits;
	struct ccbpf_totals *all, *unit;

	if (!f->updated_ns || (!bytes && !again))
		return 0;
	all = totals_all();
	unit = totals_unit((struct sock *)tp);
	TOTALS_ADD(all, unit, bytes_acked, bytes);
	TOTALS_ADD(all, unit, retransmits, again);
	if (!bytes || passed_ns > TOTALS_GAP_MOST_NS)
		return 0;
	TOTALS_ADD(all, unit, sending_ns, passed_ns);
	if (totals_gives_way(f))
		TOTALS_ADD(all, unit, yielded_ns, passed_ns);
	return 0;
}

/* The flow ends, or another controller takes it over. */
static __always_inline void totals_closed(struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);

	if (f)
		totals_add_up(tcp_of(sk), f);
}

#endif
