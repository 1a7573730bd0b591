// SPDX-License-Identifier: GPL-2.0-only
/*
 * What gave a connection its controller, or holds its receive window: an iterator over the sockets
 * that a program of ours remembers, in all network namespaces. Its map is the storage of sockets
 * of bpf/unit.bpf.c (`chosen`), of bpf/run.bpf.c (`accounts`), or of kern/receive.bpf.h (`receives`);
 * a socket that is closed is not in it any more. The rule that gave a controller is in the flow's
 * record (kern/ruled.bpf.h).
 *
 * Some kernels refuse this iterator: bpf/chosen_tcp.bpf.c takes its place there.
 *
 * It is loaded for `ccbpf flows` and `ccbpf status`, and costs the connections nothing.
 */
#include "kern/chosen_record.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("iter/bpf_sk_storage_map")
int chosen(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	const __u32 *first = ctx->value;
	struct sock *sk = ctx->sk;

	if (sk && first)
		chosen_write(ctx->meta->seq, sk, *first);
	return 0;
}
