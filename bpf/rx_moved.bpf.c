// SPDX-License-Identifier: GPL-2.0-only
/*
 * What `ccbpf renice --download` holds: a sockops program at the root cgroup. The receive window
 * of connections that bpf/renice_rx.bpf.c has put into the map `receives` yields
 * (kern/receive.bpf.h). All others it leaves alone.
 *
 *  1. It holds no connection by itself, and none that is opened later.
 *  2. Where it goes before its connections (`ccbpf clean --all`) bpf/rx_open.bpf.c opens their windows
 *     first. What that does not find opens with its next segment: `opening`.
 *
 * Cost: for the packets of other connections nothing; for each connection of this host two or three
 * calls that look up its storage; for what it holds, the cost of kern/receive.bpf.h.
 */
#include "kern/receive.bpf.h"

char LICENSE[] SEC("license") = "GPL";

volatile struct ccbpf_moved moved SEC(".data.moved") = { .abi = CCBPF_RULE_ABI };

static __always_inline void segment(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
				    struct receive *r)
{
	if (ctx->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS)
		return;
	if (law_likely(!moved.opening))
		receive_segment(ctx, tp, r, CCBPF_RECEIVED_BY_RENICE, NULL);
	else
		receive_end(ctx, tp, r, NULL);
}

/* The socket is connected anew: what is remembered is of the connection before, and its clamp is gone
 * (tcp_disconnect(), net/ipv4/tcp.c). A window of 0 is of that one, too. */
static __always_inline void forget(struct bpf_sock_ops *ctx, struct tcp_sock *tp, struct receive *r)
{
	u64 key = r->key;

	bpf_map_delete_elem(&flows, &key);
	receive_forget(ctx, tp);
}

SEC("sockops")
int ccbpf_rx_moved(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tp = choose_socket(ctx);
	struct receive *r = tp ? receive_of(tp) : NULL;

	if (!r)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		forget(ctx, tp, r);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		segment(ctx, tp, r);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		receive_state(ctx, tp, NULL);
		break;
	}
	return 1;
}
