/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The DSCP of a connection as a socket option: bodies of functions, for whatever bpf_setsockopt()
 * takes in a program (@on): a socket, or a sockops program's context. See dscp.bpf.h.
 */
#ifndef CCBPF_KERN_DSCP_OPTION_BPF_H
#define CCBPF_KERN_DSCP_OPTION_BPF_H

#include "kern/socket.bpf.h"

#define SOL_IP 0 /* include/linux/socket.h */
#define SOL_SOCKET 1
#define SO_PRIORITY 12 /* include/uapi/asm-generic/socket.h */
#define SOL_IPV6 41
#define IP_TOS 1 /* include/uapi/linux/in.h */
#define IPV6_TCLASS 67 /* include/uapi/linux/in6.h */
#define DSCP_SHIFT 2
#define DSCP_UNKNOWN 64 /* no DSCP: they have six bits */

static __always_inline bool dscp_mapped(struct sock *sk)
{
	struct in6_addr *a = &sk->__sk_common.skc_v6_daddr;

	return sk->__sk_common.skc_family == AF_INET6 && !a->in6_u.u6_addr32[0] &&
	       !a->in6_u.u6_addr32[1] && a->in6_u.u6_addr32[2] == ADDRESS_MAPPED;
}

/* Are its packets IPv6? */
static __always_inline bool dscp_v6(struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_INET6 && !dscp_mapped(sk);
}

/* The body of a function that returns the DSCP, or DSCP_UNKNOWN. */
#define DSCP_READ(on, sk)                                                               \
	bool v6 = dscp_v6(sk);                                                          \
	int tos = 0;                                                                    \
                                                                                        \
	if (bpf_getsockopt(on, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_TCLASS : IP_TOS, &tos, \
			   sizeof(tos)))                                                \
		return DSCP_UNKNOWN;                                                    \
	return (tos & 0xff) >> DSCP_SHIFT

/* The body of a function that sets it, and returns 0. */
#define DSCP_WRITE(on, sk, dscp)                                                              \
	int tos = dscp << DSCP_SHIFT & 0xff;                                                  \
	u32 priority = sk->sk_priority;                                                       \
	bool v6 = dscp_v6(sk);                                                                \
	int err = bpf_setsockopt(on, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_TCLASS : IP_TOS, &tos, \
				 sizeof(tos));                                                \
                                                                                              \
	if (!err && sk->sk_priority != priority)                                              \
		bpf_setsockopt(on, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));     \
	return err

#endif
