/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sums that `ccbpf metrics` reads (struct ccbpf_totals of ccbpf/stats.h), and how a program adds to them: of
 * all flows of a kind, of those of a cgroup, and of those of a rule. What flows of a controller add is in
 * kern/totals.bpf.h, what downloads add in kern/download_totals.bpf.h.
 *
 * Additions are atomic: a unit's flows are on all CPUs, and a softirq may count on the same CPU in
 * the middle of a close().
 */
#ifndef CCBPF_KERN_TOTALS_MAPS_BPF_H
#define CCBPF_KERN_TOTALS_MAPS_BPF_H

#include "ccbpf/controllers.h"
#include "ccbpf/stats.h"
#include "kern/socket.bpf.h"
#include "law/fixed.h"
#include <bpf/bpf_helpers.h>

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

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CCBPF_RULED_MOST);
	__type(key, struct ccbpf_ruled_key);
	__type(value, struct ccbpf_totals);
} rule_totals SEC(".maps");

static const struct ccbpf_totals no_totals = {};

/* An element that is made where it is missing; NULL: there is no memory for it. */
static __always_inline struct ccbpf_totals *totals_element(void *map, const void *key)
{
	struct ccbpf_totals *element = bpf_map_lookup_elem(map, key);

	if (law_likely(element))
		return element;
	bpf_map_update_elem(map, key, &no_totals, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/* The element of a rule, and of the controller that its connections have; NULL as above. */
static __noinline struct ccbpf_totals *ruled_totals(u64 made_ns, u32 kind)
{
	struct ccbpf_ruled_key key = { .rule = made_ns, .kind = kind };

	return totals_element(&rule_totals, &key);
}

/* The element of a cgroup, by its id; NULL as above, and where the kernel knows none. */
static __noinline struct ccbpf_totals *totals_unit(u64 cgroup, u32 kind)
{
	struct ccbpf_unit_key key = { .cgroup = cgroup, .kind = kind };

	return cgroup ? totals_element(&unit_totals, &key) : NULL;
}

/* Where what a flow does is added; NULL: there is no such sum, or no memory for it. */
struct totals_of {
	struct ccbpf_totals *all, *unit, *rule;
};

/* @cgroup: its id, or 0. @rule: its `made_ns`, or 0. */
static __always_inline struct totals_of totals_find(u32 kind, u64 cgroup, u64 rule)
{
	struct totals_of to = {};

	to.all = bpf_map_lookup_elem(&totals, &kind);
	to.unit = totals_unit(cgroup, kind);
	if (rule)
		to.rule = ruled_totals(rule, kind);
	return to;
}

#define TOTALS_ADD(to, counter, n)                                    \
	do {                                                          \
		if ((to).all)                                         \
			__sync_fetch_and_add(&(to).all->counter, n);  \
		if ((to).unit)                                        \
			__sync_fetch_and_add(&(to).unit->counter, n); \
		if ((to).rule)                                        \
			__sync_fetch_and_add(&(to).rule->counter, n); \
	} while (0)

#endif
