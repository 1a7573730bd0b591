/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which rule gave a connection its controller, and what the connections of a rule did.
 *
 * The flow's record in `flows` says which rule, and goes with the flow. Where there is no record the
 * storage `ruled` of the socket does: before the controller's init(), which takes it over into the
 * record, and from the release() of one controller to the init() of another. To make a
 * storage costs more than all else that a rule does. It ends with the socket, or when the socket has connected
 * anew: until then it says that the controller is by a rule, and no choice of the program. Without
 * memory for it the rule is not known.
 */
#ifndef CCBPF_KERN_RULED_BPF_H
#define CCBPF_KERN_RULED_BPF_H

#include "ccbpf/stats.h"
#include "kern/life.bpf.h"
#include "kern/socket.bpf.h"
#include "law/fixed.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ccbpf_chosen);
} ruled SEC(".maps");

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

/* The flow with record @f has got its controller by this rule. */
static __always_inline void ruled_begin(struct ccbpf_flow *f, const struct ccbpf_chosen *chosen)
{
	struct ccbpf_totals *to = ruled_totals(chosen->made_ns, f->kind);

	life_set_rule(f, chosen);
	if (to)
		__sync_fetch_and_add(&to->flows, 1);
}

/* Remember the rule while there is no record. It has given the controller that the socket has, if
 * nothing is remembered: or else that was the one before. */
static __always_inline void ruled_keep(void *sk, const struct ccbpf_chosen *chosen)
{
	struct ccbpf_chosen kept = *chosen;

	kept.key = sock_controller_key(sk);
	bpf_sk_storage_get(&ruled, sk, &kept, BPF_SK_STORAGE_GET_F_CREATE);
}

/* Of a socket that has got a controller by a setsockopt(): the kernel's key of what a rule gave to the
 * connection before; 0: none did. */
static __always_inline u32 ruled_before(void *sk)
{
	struct ccbpf_chosen *at = bpf_sk_storage_get(&ruled, sk, NULL, 0);

	return at ? at->key : 0;
}

#endif
