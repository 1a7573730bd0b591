/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The DSCP of a connection's packets, by bpf_setsockopt(): the kernel keeps the ECN bits, and
 * looks its route up anew.
 *
 *  1. The kernel refuses bpf_setsockopt() in release(). So a socket that changes its controller
 *     keeps the DSCP that was set.
 *  2. If an IPv6 socket carries IPv4 (::ffff:a.b.c.d), IP_TOS counts. Kernels that look only at
 *     the socket's family refuse it there: then its packets keep their DSCP, and dscp_of()
 *     returns DSCP_UNKNOWN.
 *  3. IP_TOS also sets the socket's priority (net/ipv4/ip_sockglue.c), by which qdiscs choose
 *     a band or a class. The priority belongs to the application, and is restored.
 */
#ifndef CCBPF_KERN_DSCP_BPF_H
#define CCBPF_KERN_DSCP_BPF_H

#include "kern/dscp_option.bpf.h"

static __noinline u32 dscp_of(struct sock *sk)
{
	DSCP_READ(sk, sk);
}

/* 0: done */
static __noinline int dscp_set(struct sock *sk, u32 dscp)
{
	DSCP_WRITE(sk, sk, dscp);
}

/* Set a new connection's DSCP, unless its application has set one. Returns the DSCP that it has
 * then. */
static __always_inline u32 dscp_begin(struct sock *sk, u32 dscp)
{
	u32 has = dscp_of(sk);

	if (has || !dscp || dscp_set(sk, dscp))
		return has;
	return dscp;
}

#endif
