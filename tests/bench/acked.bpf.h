/* SPDX-License-Identifier: GPL-2.0-only */
/* The members of struct tcp_congestion_ops that the programs of the bench fill: pkts_acked, which
 * the kernel's cubic has, beside those of vmlinux.h (libbpf takes the part of the name before ___). */
#ifndef CCBPF_BENCH_ACKED_BPF_H
#define CCBPF_BENCH_ACKED_BPF_H

#include "kern/socket.bpf.h"

struct ack_sample {
	__u32 pkts_acked;
};

struct tcp_congestion_ops___acked {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*min_tso_segs)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
};

#endif
