/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The DSCP of a connection's packets, by bpf_setsockopt(): the kernel keeps the ECN bits, and
 * looks its route up anew.
 *
 *  1. The kernel refuses bpf_setsockopt() in release(). So a socket that changes its controller
 *     keeps the DSCP that was set.
 *  2. For IPv4 on a socket of IPv6 (::ffff:a.b.c.d) IP_TOS counts. Kernels that look at the
 *     socket's family only refuse it there: then its packets keep their DSCP, and dscp_of()
 *     returns DSCP_UNKNOWN.
 *  3. IP_TOS also sets the socket's priority (net/ipv4/ip_sockglue.c), by which qdiscs choose
 *     a band or a class. The priority belongs to the application, and is restored.
 */
#ifndef CCBPF_KERN_DSCP_BPF_H
#define CCBPF_KERN_DSCP_BPF_H

#include "kern/socket.bpf.h"

#define __maybe_unused __attribute__((unused)) /* a sockops program uses other ones */

#define SOL_IP 0 /* include/linux/socket.h */
#define SOL_SOCKET 1
#define SO_PRIORITY 12 /* include/uapi/asm-generic/socket.h */
#define SOL_IPV6 41
#define IP_TOS 1 /* include/uapi/linux/in.h */
#define IPV6_TCLASS 67 /* include/uapi/linux/in6.h */
#define DSCP_SHIFT 2
#define DSCP_UNKNOWN 64 /* no DSCP: they have six bits */
#define ADDRESS_MAPPED 0xffff0000 /* in6_addr[2], network byte order */

static __always_inline bool dscp_mapped(struct sock *sk)
{
	struct in6_addr *a = &sk->__sk_common.skc_v6_daddr;

	return sk->__sk_common.skc_family == AF_INET6 && !a->in6_u.u6_addr32[0] &&
	       !a->in6_u.u6_addr32[1] && a->in6_u.u6_addr32[2] == ADDRESS_MAPPED;
}

/* Does IPv6 carry its packets? */
static __always_inline bool dscp_v6(struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_INET6 && !dscp_mapped(sk);
}

/* @on: what bpf_getsockopt() takes, the socket or a sockops program's context */
static __always_inline u32 dscp_read(void *on, struct sock *sk)
{
	bool v6 = dscp_v6(sk);
	int tos = 0;

	if (bpf_getsockopt(on, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_TCLASS : IP_TOS, &tos,
			   sizeof(tos)))
		return DSCP_UNKNOWN;
	return (tos & 0xff) >> DSCP_SHIFT;
}

/* 0: done */
static __always_inline int dscp_write(void *on, struct sock *sk, u32 dscp)
{
	int tos = dscp << DSCP_SHIFT & 0xff;
	u32 priority = sk->sk_priority;
	bool v6 = dscp_v6(sk);
	int err = bpf_setsockopt(on, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_TCLASS : IP_TOS, &tos,
				 sizeof(tos));

	if (!err && sk->sk_priority != priority)
		bpf_setsockopt(on, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));
	return err;
}

static __noinline __maybe_unused u32 dscp_of(struct sock *sk)
{
	return dscp_read(sk, sk);
}

static __noinline __maybe_unused int dscp_set(struct sock *sk, u32 dscp)
{
	return dscp_write(sk, sk, dscp);
}

/* Set a new connection's DSCP, unless its application has set one. Returns what it has. */
static __always_inline u32 dscp_begin(struct sock *sk, u32 dscp)
{
	u32 has = dscp_of(sk);

	if (has || !dscp || dscp_set(sk, dscp))
		return has;
	return dscp;
}

#endif
