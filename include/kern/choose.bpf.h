/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Giving somebody else's connection a controller and a DSCP, from a sockops program.
 *
 *  1. The controller is set when the connection is established, for both sides: before its
 *     first init(), and after a route's `congctl`, which this overwrites. A route with
 *     `congctl lock` refuses it. Earlier, at TCP_CONNECT_CB, the kernel would call init(),
 *     and a route's `congctl` would then exchange the controller without a release().
 *  2. The DSCP is set at TCP_CONNECT_CB as well, so that the SYN has it.
 *  3. A choice of the application (its setsockopt(), also one that an accepted socket got
 *     from its listener) is kept, unless ours has CCBPF_CHOICE_FORCE. The kernel notes our
 *     choice in the same bit: of two programs at nested cgroups the inner one wins. The bit stays
 *     when a socket is disconnected and connects anew. So each program remembers with the
 *     socket what it has given to the connection before (`again`), and that is no choice.
 *  4. The kernel does not check the capability for a restricted controller in BPF. So this
 *     program does: such a controller is only for sockets of root.
 *  5. What fails is counted, and the connection goes on with what it has.
 */
#ifndef CCBPF_KERN_CHOOSE_BPF_H
#define CCBPF_KERN_CHOOSE_BPF_H

#include "ccbpf/rule.h"
#include "kern/dscp_option.bpf.h"
#include "kern/socket.bpf.h"

#define TCP_CONGESTION 13 /* include/uapi/linux/tcp.h */

#define choose_count(counts, counter) __sync_fetch_and_add(&(counts)->counter, 1)

/* The connection that a sockops program is called for, or NULL. */
static __always_inline struct tcp_sock *choose_socket(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	return ctx->is_fullsock && sk ? bpf_skc_to_tcp_sock(sk) : NULL;
}

/* Was a controller set for this connection, by its application or an inner program? */
static __always_inline bool choose_is_made(struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_setsockopt);
}

/* Does its controller serve it already, after its init()? Before the connection is established it does not. */
static __always_inline bool choose_has_begun(struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_initialized);
}

static __always_inline bool choose_allowed(struct tcp_sock *tp, u32 flags)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	return !(flags & CCBPF_CHOICE_RESTRICTED) || !sk->sk_uid.val;
}

/* Does a socket that connects anew still have the controller that we gave to its connection before?
 * @given: the kernel's key of that; 0: we gave none. */
static __always_inline bool choose_again(struct tcp_sock *tp, u32 given)
{
	return given && given == sock_controller_key(tp);
}

/* Will the controller of a choice with these flags be set? What the application has chosen is kept. */
static __always_inline bool choose_tries(struct tcp_sock *tp, u32 flags, bool again)
{
	return !(flags & (CCBPF_CHOICE_EXEMPT | CCBPF_CHOICE_KEEP)) && choose_allowed(tp, flags) &&
	       (again || !choose_is_made(tp) || flags & CCBPF_CHOICE_FORCE);
}

static __noinline u32 choose_read_dscp(struct bpf_sock_ops *ctx, struct sock *sk)
{
	DSCP_READ(ctx, sk);
}

static __noinline int choose_write_dscp(struct bpf_sock_ops *ctx, struct sock *sk, u32 dscp)
{
	DSCP_WRITE(ctx, sk, dscp);
}

static __always_inline void choose_dscp(struct bpf_sock_ops *ctx, struct tcp_sock *tp, u32 dscp,
					struct ccbpf_choice_counts *counts)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	if (dscp >= CCBPF_DSCP_KEEP)
		return;
	/* what the application has set stays */
	if (!choose_read_dscp(ctx, sk) && choose_write_dscp(ctx, sk, dscp))
		choose_count(counts, unmarked);
}

/* At TCP_CONNECT_CB. @again: choose_again() */
static __always_inline void choose_at_connect(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					      const struct ccbpf_choice *choice,
					      struct ccbpf_choice_counts *counts, bool again)
{
	if (choose_tries(tp, choice->flags, again))
		choose_dscp(ctx, tp, choice->dscp, counts);
}

/* At ACTIVE_ESTABLISHED_CB and PASSIVE_ESTABLISHED_CB. @again: choose_again(). Returns whether the
 * connection has the controller now. */
static __always_inline bool choose(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
				   const struct ccbpf_choice *choice,
				   struct ccbpf_choice_counts *counts, bool again)
{
	char name[CCBPF_NAME_LEN];
	u32 flags = choice->flags;

	if (flags & CCBPF_CHOICE_EXEMPT) {
		choose_count(counts, exempt);
		return false;
	}
	if (flags & CCBPF_CHOICE_KEEP)
		return false;
	if (choose_is_made(tp) && !again && !(flags & CCBPF_CHOICE_FORCE)) {
		choose_count(counts, kept);
		return false;
	}
	__builtin_memcpy(name, choice->controller, sizeof(name));
	if (!choose_allowed(tp, flags) ||
	    bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name))) {
		choose_count(counts, refused);
		return false;
	}
	choose_count(counts, set);
	choose_dscp(ctx, tp, choice->dscp, counts);
	return true;
}

#endif
