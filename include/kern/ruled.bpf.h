/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The storage of a socket that says which rule gave it its controller: for `ccbpf flows`, and for
 * the controller, which adds what the connection does to the rule's totals (kern/totals.bpf.h).
 * It ends with the socket, or when the socket connects anew. If the kernel has no memory for it,
 * neither knows the rule.
 */
#ifndef CCBPF_KERN_RULED_BPF_H
#define CCBPF_KERN_RULED_BPF_H

#include "ccbpf/rule.h"
#include "kern/compat.bpf.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ccbpf_chosen);
} ruled SEC(".maps");

#endif
