/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every difference between kernels that the programs meet, each with the version
 * where it changed and what we do. Decided by BTF, never by a version number.
 *
 *  1. tcp_sock.tcp_usec_ts (6.7): microsecond timestamps. Absent: milliseconds.
 *  2. struct_ops links (6.4): the loader's business (loader/cc/running.c).
 *  3. cwnd_event()'s CA_EVENT_TX_START (7.1): a member of its own there,
 *     cwnd_event_tx_start(). A controller has a program <name>_tx_start for it
 *     and leaves the member empty, because earlier kernels refuse an object that
 *     has it; the loader fills it in where the kernel knows it (loader/cc/program.c).
 *  4. bpf_cast_to_kern_ctx() (6.2): a tc program reads its sk_buff, device and
 *     queue as plain memory. Absent: the same by bpf_probe_read_kernel(), as the
 *     context is the sk_buff. COMPAT_READ() uses whichever there is.
 *  5. TCX links (6.6) are the loader's business (loader/sys/tcattach.c).
 *  6. bpf_setsockopt(SOL_IP) on a socket of IPv6 that carries IPv4: refused where
 *     the kernel looks at the socket's family only. We try it (kern/dscp.bpf.h).
 *  7. sock.sk_ino (6.18): a socket's inode number. Absent: read from the inode.
 *  8. net.ipv4.tcp_shrink_window (6.5): the kernel takes back what it has advertised. Absent: it
 *     never does.
 *  9. TCP_BPF_SOCK_OPS_CB_FLAGS (6.12): the loader looks for it (loader/sys/kernel.c).
 */
#ifndef CCBPF_KERN_COMPAT_BPF_H
#define CCBPF_KERN_COMPAT_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* 1. ns per tick of our own timestamp clock; include/net/tcp.h: TCP_TS_HZ */
static __always_inline __u32 compat_our_tick_ns(struct tcp_sock *tp)
{
	if (bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))
		return 1000;
	return 1000000;
}

/* 3. A controller's cwnd_event() and tx_start: start(sk), when nothing was in flight and
 * the first packets leave. */
#define COMPAT_TX_START(cc, start)                                               \
	SEC("struct_ops")                                                        \
	void BPF_PROG(cc##_cwnd_event, struct sock *sk, enum tcp_ca_event event) \
	{                                                                        \
		if (event == CA_EVENT_TX_START)                                  \
			start(sk);                                               \
	}                                                                        \
                                                                                 \
	SEC("?struct_ops")                                                       \
	void BPF_PROG(cc##_tx_start, struct sock *sk)                            \
	{                                                                        \
		start(sk);                                                       \
	}

/* 4. */
extern void *bpf_cast_to_kern_ctx(void *) __ksym __weak;

static __always_inline struct sk_buff *compat_skb(struct __sk_buff *ctx)
{
	if (bpf_ksym_exists(bpf_cast_to_kern_ctx))
		return bpf_cast_to_kern_ctx(ctx);
	return (struct sk_buff *)ctx;
}

/* Read a member of a struct that compat_skb() leads to. */
#define COMPAT_READ(from, member) \
	(bpf_ksym_exists(bpf_cast_to_kern_ctx) ? (from)->member : BPF_CORE_READ(from, member))

/* 7. The number of /proc/<pid>/fd; 0: its process has closed it. */
static __always_inline __u64 compat_sock_inode(struct sock *sk)
{
	struct socket_alloc *both = (void *)sk->sk_socket; /* its first member is the socket */

	if (!both)
		return 0;
	if (bpf_core_field_exists(sk->sk_ino))
		return sk->sk_ino;
	return BPF_CORE_READ(both, vfs_inode.i_ino);
}

/* 8. */
static __always_inline bool compat_shrinks_window(struct tcp_sock *tp)
{
	struct net *net = tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net;

	return bpf_core_field_exists(net->ipv4.sysctl_tcp_shrink_window) &&
	       net->ipv4.sysctl_tcp_shrink_window;
}

#endif
