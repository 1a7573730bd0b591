/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of a socket's cgroup, for bpf/assign.bpf.c: those that name it or one above it, and those
 * without a cgroup. They are gathered when a cgroup is met for the first time, and then remembered.
 *
 * A unit counts only where all cgroups above it are slices: below a service or a scope (a user's
 * own manager, a container) anybody may have made a cgroup of that name.
 */
#ifndef CCBPF_KERN_RULE_CGROUPS_BPF_H
#define CCBPF_KERN_RULE_CGROUPS_BPF_H

#include "ccbpf/rule.h"
#include "kern/compat.bpf.h"
#include <bpf/bpf_helpers.h>

#define WORDS (CCBPF_RULES_MOST / 64)
#define DEEPEST 64 /* levels of cgroups: a deeper cgroup has the rules of its lowest 64 levels */
#define SLICE 0x6563696c732eULL /* ".slice", little endian */
#define SLICE_LEN 6

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CCBPF_RULES_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct ccbpf_rule_set);
} cgroup_ids SEC(".maps");

struct unit {
	char name[CCBPF_UNIT_LEN];
} __attribute__((aligned(8)));

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CCBPF_RULES_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct unit);
	__type(value, struct ccbpf_rule_set);
} cgroup_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CCBPF_LOOKS_CGROUPS);
	__type(key, __u64);
	__type(value, struct ccbpf_rule_set);
} looked SEC(".maps");

/*
 * Where the rules of a cgroup are gathered, by the socket that met it, which is locked meanwhile: so nobody
 * else writes there. An entry of `looked` may become that of another cgroup at any time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CCBPF_LOOKS_CGROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct ccbpf_rule_set);
} gathered SEC(".maps");

/* The rules without a cgroup. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ccbpf_rule_set);
} looked_first SEC(".maps");

static __always_inline void add_set(struct ccbpf_rule_set *to, const struct ccbpf_rule_set *set)
{
	for (int i = 0; i < WORDS; i++)
		to->words[i] |= set->words[i];
	to->filled |= set->filled;
}

/* A level of the hierarchy on the way up from a socket's cgroup. */
static __always_inline struct cgroup *above(struct cgroup *cgroup)
{
	struct cgroup_subsys_state *parent = cgroup->self.parent;

	return parent ? parent->cgroup : NULL;
}

/* Read its name into `unit`, zeroes behind it. Returns whether it is a slice's name. */
static __noinline bool read_name(struct cgroup *cgroup, struct unit *unit)
{
	u64 end = 0;
	long len;

	__builtin_memset(unit, 0, sizeof(*unit));
	len = bpf_probe_read_kernel_str(unit->name, sizeof(unit->name), cgroup->kn->name);
	if (len <= SLICE_LEN || len > CCBPF_UNIT_LEN)
		return false;
	bpf_probe_read_kernel(&end, SLICE_LEN, cgroup->kn->name + (len - 1 - SLICE_LEN));
	return end == SLICE;
}

/* The way up from a socket's cgroup, by bpf_loop(): level 0 is that cgroup, the root is the last. */
struct climb {
	struct cgroup *at;
	struct ccbpf_rule_set *to;
	u32 highest; /* highest level that is no slice */
};

static long seek_unit(u32 level, struct climb *climb)
{
	struct cgroup *at = climb->at, *next = above(at);
	struct unit unit;

	if (!next)
		return 1;
	if (!read_name(at, &unit))
		climb->highest = level;
	climb->at = next;
	return 0;
}

static long gather(u32 level, struct climb *climb)
{
	struct cgroup *at = climb->at, *next = above(at);
	struct ccbpf_rule_set *found;
	struct unit unit;
	u64 id = at->kn->id;

	found = bpf_map_lookup_elem(&cgroup_ids, &id);
	if (found)
		add_set(climb->to, found);
	if (level >= climb->highest) {
		read_name(at, &unit);
		found = bpf_map_lookup_elem(&cgroup_names, &unit);
		if (found)
			add_set(climb->to, found);
	}
	if (!next)
		return 1;
	climb->at = next;
	return 0;
}

/* Remember the rules of a cgroup that socket @sk has met. Not inline, for the stack of its caller. */
static __noinline int look_up(struct cgroup *cgroup, u64 id, u64 sk)
{
	struct climb climb = { .at = cgroup };
	struct ccbpf_rule_set *first;
	u32 zero = 0;

	first = bpf_map_lookup_elem(&looked_first, &zero);
	if (!first || bpf_map_update_elem(&gathered, &sk, first, BPF_ANY))
		return 0;
	climb.to = bpf_map_lookup_elem(&gathered, &sk);
	if (!climb.to)
		return 0;
	bpf_loop(DEEPEST, seek_unit, &climb, 0);
	climb.at = cgroup;
	bpf_loop(DEEPEST, gather, &climb, 0);
	bpf_map_update_elem(&looked, &id, climb.to, BPF_NOEXIST);
	bpf_map_delete_elem(&gathered, &sk);
	return 0;
}

/* The rules of the cgroup of socket @sk, or NULL. */
static __always_inline struct ccbpf_rule_set *rules_of(struct cgroup *cgroup, struct sock *sk)
{
	u64 id = cgroup->kn->id;
	struct ccbpf_rule_set *found = bpf_map_lookup_elem(&looked, &id);

	if (found)
		return found;
	look_up(cgroup, id, (u64)(unsigned long)sk);
	return bpf_map_lookup_elem(&looked, &id);
}

#endif
