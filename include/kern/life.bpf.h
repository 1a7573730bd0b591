/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a flow's record says of its whole life, struct ccbpf_flow_life: whose it is, how long it has
 * carried data, for how long of that it gave way, and since when it gives way now. A step is the time
 * between two writings of the record: in it the flow did what the first one says.
 *
 * It is for readers, as kern/totals.bpf.h is: a program does the same with and without it.
 */
#ifndef CCBPF_KERN_LIFE_BPF_H
#define CCBPF_KERN_LIFE_BPF_H

#include "ccbpf/rule.h"
#include "kern/compat.bpf.h"

#define LIFE_GAP_MOST_NS 2000000000 /* more is a pause of the application */

struct life_step {
	u64 sending_ns, yielded_ns;
};

static __always_inline bool life_gives_way(const struct ccbpf_flow *f)
{
	return f->phase == CCBPF_PHASE_INFERENCE || f->phase == CCBPF_PHASE_SMALL ||
	       f->phase == CCBPF_PHASE_RECOVERY;
}

/*
 * Before @f is written anew: @bytes were acknowledged, or received, since it was written. Time before
 * the controller took over the flow does not count: `updated_ns` of a new record may be older.
 */
static __always_inline struct life_step life_step(struct ccbpf_flow *f, u64 now_ns, u64 bytes)
{
	u64 from_ns = f->updated_ns > f->started_ns ? f->updated_ns : f->started_ns;
	u64 passed_ns = now_ns - from_ns;
	struct life_step step = {};

	if (!f->updated_ns || (s64)passed_ns <= 0)
		return step;
	if (passed_ns > LIFE_GAP_MOST_NS || !life_gives_way(f))
		f->life.yields_since_ns = 0;
	if (passed_ns > LIFE_GAP_MOST_NS || !bytes)
		return step;
	step.sending_ns = passed_ns;
	f->life.sending_ns += passed_ns;
	if (!life_gives_way(f))
		return step;
	step.yielded_ns = passed_ns;
	f->life.yielded_ns += passed_ns;
	if (!f->life.yields_since_ns)
		f->life.yields_since_ns = from_ns;
	return step;
}

/* The id of a socket's cgroup; 0: the kernel knows none (CONFIG_SOCK_CGROUP_DATA). */
static __always_inline u64 life_cgroup_of(struct sock *sk)
{
	struct cgroup *cgroup;

	if (!bpf_core_field_exists(sk->sk_cgrp_data))
		return 0;
	cgroup = sk->sk_cgrp_data.cgroup;
	return cgroup ? BPF_CORE_READ(cgroup, kn, id) : 0;
}

/* In a new record @f. */
static __always_inline void life_set_cgroup(struct ccbpf_flow *f, struct sock *sk)
{
	f->life.cgroup = life_cgroup_of(sk);
}

static __always_inline void life_set_rule(struct ccbpf_flow *f, const struct ccbpf_chosen *chosen)
{
	f->life.rule = chosen->made_ns;
	f->life.rule_id = chosen->rule;
}

#endif
