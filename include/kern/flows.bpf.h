/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shared map `flows`: one record for each connection of a controller of ours. The controllers
 * write it (kern/flow.bpf.h), others look up a connection's record.
 */
#ifndef CCBPF_KERN_FLOWS_BPF_H
#define CCBPF_KERN_FLOWS_BPF_H

#include "ccbpf/flow.h"
#include "ccbpf/identity.h"
#include "kern/socket.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CCBPF_FLOWS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct ccbpf_flow);
} flows SEC(".maps");

/* The key of a socket's record: unique among live flows. */
static __always_inline u64 flow_key(struct sock *sk)
{
	return (u64)(unsigned long)sk;
}

static __always_inline struct ccbpf_flow *flow_of(struct sock *sk)
{
	u64 key = flow_key(sk);

	return bpf_map_lookup_elem(&flows, &key);
}

static __always_inline void flow_addresses(struct sock *sk, u8 *local, u8 *remote)
{
	struct sock_common *c = &sk->__sk_common;

	if (c->skc_family == AF_INET6) {
		bpf_probe_read_kernel(local, 16, &c->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(remote, 16, &c->skc_v6_daddr);
	} else {
		*(__be32 *)local = c->skc_rcv_saddr;
		*(__be32 *)remote = c->skc_daddr;
	}
}

#endif
