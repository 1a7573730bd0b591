// SPDX-License-Identifier: GPL-2.0-only
/* The yardstick of `make bench`: a controller that does nothing in the hooks that our controllers
 * and the kernel's cubic use for every ACK, so that a call costs only the trampoline and the accounting.
 * Its window stays at 10. */
#include "acked.bpf.h"

char _license[] SEC("license") = "GPL";

SEC("struct_ops")
void BPF_PROG(empty_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC("struct_ops")
__u32 BPF_PROG(empty_ssthresh, struct sock *sk)
{
	return sock_reno_ssthresh(tcp_of(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(empty_undo_cwnd, struct sock *sk)
{
	return tcp_of(sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(empty_in_ack_event, struct sock *sk, __u32 flags)
{
}

SEC("struct_ops")
void BPF_PROG(empty_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
}

SEC("struct_ops")
__u32 BPF_PROG(empty_min_tso_segs, struct sock *sk)
{
	return 2; /* what the kernel takes by itself */
}

SEC(".struct_ops")
struct tcp_congestion_ops___acked cc_empty = {
	.cong_avoid = (void *)empty_cong_avoid,
	.in_ack_event = (void *)empty_in_ack_event,
	.min_tso_segs = (void *)empty_min_tso_segs,
	.pkts_acked = (void *)empty_pkts_acked,
	.ssthresh = (void *)empty_ssthresh,
	.undo_cwnd = (void *)empty_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "cc_empty",
};
