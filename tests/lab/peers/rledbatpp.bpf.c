// SPDX-License-Identifier: GPL-2.0-only
/*
 * LEDBAT++ at the receiver (RFC 9840), as a peer of the labs' rows, in the hook of the product's
 * downloads: kern/receive.bpf.h reads the ACK and sets the window, and rledbatpp.h decides, which
 * is the specification. It is not part of the product.
 *
 * It is attached to a cgroup, whose connections it holds from their beginning to their end: it
 * keeps no record and no account, and opens no window when it goes.
 */
#include "kern/receive.bpf.h"
#include "tests/lab/peers/rledbatpp.h"

char LICENSE[] SEC("license") = "GPL";

struct peer {
	struct receive read; /* what read_ack() keeps: the segment's size */
	struct rledbatpp law;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct peer);
} downloads SEC(".maps");

static __always_inline void begin(struct bpf_sock_ops *ctx, struct tcp_sock *tp)
{
	u32 callbacks = ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;

	if (sock_timestamps(tp) &&
	    bpf_sk_storage_get(&downloads, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE))
		bpf_sock_ops_cb_flags_set(ctx, callbacks);
}

static __noinline int step(struct rledbatpp *law, const struct rx_ack *a)
{
	if (!law->started)
		rledbatpp_begin(law, a);
	rledbatpp_step(law, a);
	return 0;
}

static __always_inline void segment(struct bpf_sock_ops *ctx, struct tcp_sock *tp)
{
	struct peer *p = bpf_sk_storage_get(&downloads, tp, NULL, 0);
	struct rx_ack a;

	if (!p || tp->bytes_received < LEAST_BYTES)
		return;
	read_ack(tp, &p->read, &a);
	step(&p->law, &a);
	set_window(ctx, tp, not_taken_back(tp, &a, rledbatpp_window(&p->law, &a)));
}

SEC("sockops")
int rledbatpp(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tp = choose_socket(ctx);

	if (!tp)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		receive_at_connect(ctx, tp);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		begin(ctx, tp);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (ctx->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS)
			segment(ctx, tp);
		break;
	}
	return 1;
}
