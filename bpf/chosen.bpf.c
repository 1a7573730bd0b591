// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who gave a connection its controller, or holds its receive window: an iterator over the sockets
 * that a program of ours remembers, in all network namespaces. Its map is the storage of sockets
 * of bpf/assign.bpf.c and bpf/unit.bpf.c (`chosen`), of bpf/run.bpf.c (`accounts`), or of
 * kern/receive.bpf.h (`receives`); a socket that is closed is not in it any more.
 *
 * It is loaded for `ccbpf flows` and `ccbpf status`, and costs the connections nothing.
 */
#include "ccbpf/rule.h"
#include "kern/compat.bpf.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("iter/bpf_sk_storage_map")
int chosen(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const __u32 *first = ctx->value;
	struct ccbpf_chosen_record record = {};
	struct sock *sk = ctx->sk;

	if (!sk || !first)
		return 0;
	record.flow = (__u64)(unsigned long)sk; /* flow_key() of kern/flows.bpf.h */
	record.cookie = sk->__sk_common.skc_cookie.counter;
	record.rule = *first;
	record.inode = compat_sock_inode(sk);
	record.cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
