/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is remembered of a socket whose receive window is held (kern/receive.bpf.h), in the socket's
 * storage. Iterators find there what programs hold.
 */
#ifndef CCBPF_KERN_RECEIVES_BPF_H
#define CCBPF_KERN_RECEIVES_BPF_H

#include "kern/socket.bpf.h"
#include "law/rx_state.h"

#define TCP_WINDOW_CLAMP 10 /* include/uapi/linux/tcp.h */

/*
 * What makes the kernel call us. The first is nobody else's (kern/receive.bpf.h, 9), and goes when we let
 * go. The second stays, because another program may have asked for it since; without what is remembered
 * it does nothing.
 */
#define RECEIVE_OURS BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG
#define RECEIVE_CALLBACKS (RECEIVE_OURS | BPF_SOCK_OPS_STATE_CB_FLAG)

struct receive {
	u32 rule; /* its id; the first member: bpf/chosen.bpf.c */
	u32 most; /* bytes that its program or its route allows; RX_MOST: these do not say */
	u32 mss; /* bytes: the largest segment so far */
	struct rx rx;
	u64 key; /* of its record in `flows`: the socket's cookie, which is no address */
	u64 counted; /* bytes that are in the account */
	u64 held_us;
	u32 published_us; /* our clock */
	u32 drains, yields, losses, undos; /* reactions */
	u64 life_rule; /* when its rule was made: for the record and the totals; 0: it has none */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct receive);
} receives SEC(".maps");

static __always_inline struct receive *receive_of(struct tcp_sock *tp)
{
	return bpf_sk_storage_get(&receives, tp, NULL, 0);
}

#define SOCK_DONE 1 /* include/net/sock.h, enum sock_flags: the peer's FIN came */

/* bytes that were received: the kernel counts the peer's FIN as one */
static __always_inline u64 payload(struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	return tp->bytes_received - !!(sk->__sk_common.skc_flags & 1 << SOCK_DONE);
}

#endif
