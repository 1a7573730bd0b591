/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The storage of a socket that says that a unit's program gave it its controller, for `ccbpf flows`.
 * It ends with the socket, or when the socket has connected anew. If the kernel has no memory for it,
 * `flows` cannot show the origin.
 */
#ifndef CCBPF_KERN_CHOSEN_BPF_H
#define CCBPF_KERN_CHOSEN_BPF_H

#include "ccbpf/rule.h"
#include "kern/socket.bpf.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ccbpf_chosen);
} chosen SEC(".maps");

static __always_inline void chosen_remember(struct tcp_sock *tp)
{
	struct ccbpf_chosen *at =
		bpf_sk_storage_get(&chosen, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (at)
		at->key = sock_controller_key(tp);
}

/* Of a socket that has got a controller by a setsockopt(): the kernel's key of what a unit's program gave
 * to the connection before, and forget it; 0: it gave none. */
static __always_inline u32 chosen_before(struct tcp_sock *tp)
{
	struct ccbpf_chosen *at = bpf_sk_storage_get(&chosen, tp, NULL, 0);
	u32 given = at ? at->key : 0;

	if (at)
		bpf_sk_storage_delete(&chosen, tp);
	return given;
}

#endif
