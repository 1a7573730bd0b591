/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shared maps `stats` and `events`, and `listener`, which says until when somebody reads events
 * (ccbpf/event.h). The controllers write them (kern/flow.bpf.h), and what holds receive windows
 * (kern/receive_events.bpf.h).
 */
#ifndef CCBPF_KERN_EVENTS_BPF_H
#define CCBPF_KERN_EVENTS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "ccbpf/controllers.h"
#include "ccbpf/event.h"
#include "ccbpf/identity.h"
#include "ccbpf/stats.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CCBPF_KINDS);
	__type(key, __u32);
	__type(value, struct ccbpf_stats);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, CCBPF_EVENTS_BYTES);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} listener SEC(".maps");

static __always_inline bool flow_listened(void)
{
	u32 zero = 0;
	u64 *until_ns = bpf_map_lookup_elem(&listener, &zero);

	return until_ns && *until_ns && bpf_ktime_get_ns() < *until_ns;
}

#endif
