// SPDX-License-Identifier: GPL-2.0-only
/*
 * The same as bpf/chosen.bpf.c, for kernels that refuse its iterator. This one visits all TCP
 * sockets of one network namespace, that of the process that opens it. The loader replaces
 * `remembered_0` and the others by the storages of sockets that exist, loads the programs of those,
 * and visits the namespaces one by one. There are several programs, because loading one costs more
 * than a visit to 10 000 sockets. Before Linux 6.17 the kernel may skip a socket, or visit it twice.
 */
#include "kern/chosen_record.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline int show(struct bpf_iter__tcp *ctx, void *remembered)
{
	struct sock_common *c = ctx->sk_common;
	struct tcp_sock *tp = c ? bpf_skc_to_tcp_sock(c) : NULL;
	const __u32 *first = tp ? bpf_sk_storage_get(remembered, tp, NULL, 0) : NULL;

	if (first)
		chosen_write(ctx->meta->seq, &tp->inet_conn.icsk_inet.sk, *first);
	return 0;
}

/* clang-format off */
#define OVER(n)                                         \
	struct {                                        \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE);  \
		__uint(map_flags, BPF_F_NO_PREALLOC);   \
		__type(key, int);                       \
		__type(value, __u32);                   \
	} remembered_##n SEC(".maps");                  \
	SEC("iter/tcp")                                 \
	int chosen_tcp_##n(struct bpf_iter__tcp *ctx)   \
	{                                               \
		return show(ctx, &remembered_##n);      \
	}

OVER(0) OVER(1) OVER(2) OVER(3)
