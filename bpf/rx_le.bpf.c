// SPDX-License-Identifier: GPL-2.0-only
/*
 * What one command receives in the background: a sockops program at the cgroup of
 * `ccbpf run`. The receive window of every TCP connection of that cgroup yields
 * (kern/receive.bpf.h), and the run's account has what they received.
 *
 * The windows of connections that outlive the run open first (bpf/rx_open.bpf.c). What that does
 * not find opens with its next segment: `opening` of the account.
 */
#include "kern/receive.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct ccbpf_run run SEC(".rodata.run") = { .abi = CCBPF_RULE_ABI };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ccbpf_run_counts);
} counts SEC(".maps");

static __always_inline void segment(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
				    struct receive *r, struct ccbpf_run_counts *to)
{
	if (law_unlikely(to->opening))
		receive_end(ctx, tp, r, to);
	else if (receive_segment(ctx, tp, r, run.started_ns, to))
		choose_count(&to->choice, receivers);
}

SEC("sockops")
int ccbpf_rx_le(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tp = choose_socket(ctx);
	struct ccbpf_run_counts *to;
	struct receive *r;
	u32 zero = 0;

	to = bpf_map_lookup_elem(&counts, &zero);
	if (!tp || !to)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		receive_at_connect(ctx, tp);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		receive_begin(ctx, tp, 0, &to->choice);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		r = receive_of(tp);
		if (r && ctx->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS)
			segment(ctx, tp, r, to);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		receive_state(ctx, tp, to);
		break;
	}
	return 1;
}
