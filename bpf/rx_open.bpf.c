// SPDX-License-Identifier: GPL-2.0-only
/*
 * The windows that a run, a rule, a unit or `ccbpf renice --download` holds open: an iterator over the
 * TCP sockets of one network namespace, that of the process that opens it. The loader replaces
 * `receives` by the storage of sockets of the program that holds them, and `flows` by its records
 * (loader/rules/windows.h).
 *
 *	for each TCP socket that is in `receives`
 *		whose rule is in `live`		left alone
 *		else				let go (kern/release.bpf.h)
 *
 *  1. Of what another version of ccbpf has remembered only that it is there is used: its layout is
 *     not known. So its window opens as far as it can, also beyond what its program or route allows.
 *  2. Before Linux 6.17 the kernel may skip a socket: the loader walks twice.
 *
 * The kernel holds the lock of the socket meanwhile.
 */
#include "ccbpf/rule.h"
#include "kern/release.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct ccbpf_rx_open opening SEC(".rodata.opening") = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* the loader says how many */
	__type(key, __u32);
	__type(value, __u8);
} live SEC(".maps");

SEC("iter/tcp")
int rx_open(struct bpf_iter__tcp *ctx)
{
	struct sock_common *c = ctx->sk_common;
	struct tcp_sock *tp = c ? bpf_skc_to_tcp_sock(c) : NULL;
	struct receive *r = tp ? receive_of(tp) : NULL;
	u32 rule;

	if (!r)
		return 0;
	if (opening.foreign) {
		release(tp, true, RX_MOST);
		return 0;
	}
	rule = r->rule;
	if (!opening.by_rule || !bpf_map_lookup_elem(&live, &rule))
		release(tp, r->rx.started, r->most);
	return 0;
}
