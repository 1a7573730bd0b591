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

#include "kern/life.bpf.h"
#include "kern/socket.bpf.h"
#include "kern/totals_maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ccbpf_chosen);
} ruled SEC(".maps");

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
