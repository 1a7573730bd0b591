/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which sockets the iterators of `ccbpf renice` are for (struct ccbpf_renice_config), and their
 * answer: bpf/renice.bpf.c moves what is sent, bpf/renice_rx.bpf.c what is received.
 */
#ifndef CCBPF_KERN_SELECT_BPF_H
#define CCBPF_KERN_SELECT_BPF_H

#include "ccbpf/renice.h"
#include "kern/socket.bpf.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* include/net/tcp_states.h */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_FIN_WAIT1 4
#define TCP_FIN_WAIT2 5
#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10
#define TCP_CLOSING 11

#define DEEPEST_CGROUP 256 /* a bound for the loop; deeper cgroups count as outside */

#define TCP_CONGESTION 13 /* include/uapi/linux/tcp.h */

const volatile struct ccbpf_renice_config config SEC(".rodata.config") = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* the loader says how many */
	__type(key, __u64);
	__type(value, __u8);
} inodes SEC(".maps");

/* Is a socket in one of these states? */
static __always_inline bool state_in(const struct sock_common *c, __u32 states)
{
	return 1 << c->skc_state & states;
}

static __always_inline bool connects(const struct sock_common *c)
{
	return state_in(c, 1 << TCP_SYN_SENT | 1 << TCP_SYN_RECV);
}

static __always_inline bool listens(const struct sock_common *c)
{
	return state_in(c, 1 << TCP_LISTEN);
}

static bool same_name(const char *a, const volatile char *b)
{
	for (int i = 0; i < CCBPF_RENICE_NAME_LEN && (a[i] || b[i]); i++)
		if (a[i] != b[i])
			return false;
	return true;
}

static __always_inline bool peer_selected(const struct sock_common *c)
{
	__u32 words[4], peer;
	bool v4;

	if (config.peer == CCBPF_RENICE_PEER_ANY)
		return true;
	if (listens(c))
		return false; /* it has no peer */
	sock_peer(c, words);
	v4 = !words[0] && !words[1] && words[2] == ADDRESS_MAPPED;
	peer = v4 ? CCBPF_RENICE_PEER_V4 : CCBPF_RENICE_PEER_V6;
	if (config.peer != peer)
		return false;
	for (int i = 0; i < 4; i++)
		if ((words[i] & config.mask[i]) != config.prefix[i])
			return false;
	return true;
}

static __always_inline bool port_selected(const struct sock_common *c)
{
	return !config.port || c->skc_num == config.port || bpf_ntohs(c->skc_dport) == config.port;
}

static __always_inline struct cgroup *parent_of(struct cgroup *cgroup)
{
	struct cgroup_subsys_state *parent = BPF_CORE_READ(cgroup, self.parent);

	return parent ? (void *)parent - bpf_core_field_offset(struct cgroup, self) : NULL;
}

/* A socket's cgroup is that of the process that made it; an accepted socket's is that of its
 * listener. */
static __always_inline bool cgroup_selected(struct sock *sk)
{
	struct cgroup *at;

	if (!config.cgroup)
		return true;
	at = sk->sk_cgrp_data.cgroup;
	for (int i = 0; i < DEEPEST_CGROUP && at; i++) {
		if (BPF_CORE_READ(at, kn, id) == config.cgroup)
			return true;
		at = parent_of(at);
	}
	return false;
}

static __always_inline bool inode_selected(struct sock *sk)
{
	__u64 inode;

	if (!config.by_inode)
		return true;
	inode = compat_sock_inode(sk);
	return inode && bpf_map_lookup_elem(&inodes, &inode);
}

/* Sockets that already have the new controller are selected too, so that the loader can verify a
 * move. */
static __always_inline bool name_selected(const char *name)
{
	return !config.from[0] || same_name(name, config.from) || same_name(name, config.to);
}

static __always_inline void describe(const struct sock_common *c, struct ccbpf_renice_record *out)
{
	out->family = c->skc_family;
	out->local_port = c->skc_num;
	out->remote_port = bpf_ntohs(c->skc_dport);
	if (c->skc_family == AF_INET6) {
		bpf_probe_read_kernel(out->local_addr, 16, &c->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(out->remote_addr, 16, &c->skc_v6_daddr);
	} else {
		*(__be32 *)out->local_addr = c->skc_rcv_saddr;
		*(__be32 *)out->remote_addr = c->skc_daddr;
	}
}

/* Would bpf_seq_write() refuse the record? As seq_write() of fs/seq_file.c decides. */
static __always_inline bool is_full(const struct seq_file *seq)
{
	return seq->count + sizeof(struct ccbpf_renice_record) >= seq->size;
}

/* All conditions hold: `record` says what it is, apart from its verdict. */
static __always_inline bool selected(struct tcp_sock *tp, struct ccbpf_renice_record *record)
{
	struct sock_common *c = (void *)tp;

	if (!port_selected(c) || !peer_selected(c) || !cgroup_selected((struct sock *)tp) ||
	    !inode_selected((struct sock *)tp))
		return false;
	if (bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, record->from, sizeof(record->from)))
		return false;
	if (!name_selected(record->from))
		return false;
	record->cookie = bpf_get_socket_cookie(tp);
	describe(c, record);
	return true;
}

#endif
