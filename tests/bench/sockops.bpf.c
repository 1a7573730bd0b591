// SPDX-License-Identifier: GPL-2.0-only
/* The yardsticks of `make bench`. For standing rules: a sockops program that does nothing, and one
 * that gives each connection the same controller without a look at it. For downloads: one that asks
 * to be called for each segment, and does nothing then. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define SOL_TCP 6
#define TCP_CONGESTION 13

char _license[] SEC("license") = "GPL";

SEC("sockops")
int sockops_empty(struct bpf_sock_ops *ctx)
{
	return 1;
}

SEC("sockops")
int sockops_set(struct bpf_sock_ops *ctx)
{
	char name[] = "tcp_lp";

	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ||
	    ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	return 1;
}

SEC("sockops")
int sockops_segments(struct bpf_sock_ops *ctx)
{
	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ||
	    ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ctx, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	return 1;
}
