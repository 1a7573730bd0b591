/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a flow has carried data, for how long of that it gave way, and since when it gives way
 * now: struct ccbpf_flow_life of its record. A step is the time between two writings of the record:
 * in it the flow did what the first one says.
 *
 * It only adds up, as kern/totals.bpf.h does: a program does the same with and without it.
 */
#ifndef CCBPF_KERN_LIFE_BPF_H
#define CCBPF_KERN_LIFE_BPF_H

#include "ccbpf/flow.h"
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

/* Before @f is written anew: @bytes were acknowledged, or received, since it was written. */
static __always_inline struct life_step life_step(struct ccbpf_flow *f, u64 now_ns, u64 bytes)
{
	u64 passed_ns = now_ns - f->updated_ns;
	struct life_step step = {};

	if (!f->updated_ns || !bytes)
		return step;
	if (passed_ns > LIFE_GAP_MOST_NS) {
		f->life.yields_since_ns = 0;
		return step;
	}
	step.sending_ns = passed_ns;
	f->life.sending_ns += passed_ns;
	if (!life_gives_way(f)) {
		f->life.yields_since_ns = 0;
		return step;
	}
	step.yielded_ns = passed_ns;
	f->life.yielded_ns += passed_ns;
	if (!f->life.yields_since_ns)
		f->life.yields_since_ns = f->updated_ns;
	return step;
}

#endif
