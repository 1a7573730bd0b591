/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose a connection is whose receive window is held, and its part of the totals
 * (kern/download_totals.bpf.h): its rule is remembered from when it is established until its record is made.
 */
#ifndef CCBPF_KERN_RECEIVE_TOTALS_BPF_H
#define CCBPF_KERN_RECEIVE_TOTALS_BPF_H

#include "kern/download_totals.bpf.h"
#include "kern/receives.bpf.h"

/* The connection is held by a rule that was made then, if it is held. */
static __always_inline void life_receive_rule(struct tcp_sock *tp, u64 made_ns)
{
	struct receive *r = receive_of(tp);

	if (r)
		r->life_rule = made_ns;
}

/* The record is there. What came before the connection was held is no part of it. */
static __noinline int totals_opened(const struct receive *r)
{
	u64 key = r->key;
	struct ccbpf_flow *f = bpf_map_lookup_elem(&flows, &key);

	if (!f)
		return 0;
	f->bytes_acked = r->counted;
	if (r->life_rule) {
		f->life.rule = r->life_rule;
		f->life.rule_id = r->rule;
	}
	totals_begun(f);
	return 0;
}

/* The record goes, or its connection is about to end. */
static __noinline int totals_last(struct tcp_sock *tp, const struct receive *r)
{
	totals_ended(r->key, tp->tcp_mstamp * 1000, r->counted, r->drains, r->yields, r->losses);
	return 0;
}

#endif
