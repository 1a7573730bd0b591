/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel types and members that ccbpf reads, and no others: written from the BTF of Linux 6.18 (bpftool btf dump
 * file /sys/kernel/btf/vmlinux). Offsets are not taken from here: every access is relocated (CO-RE) when the program
 * is loaded, so order and padding do not matter and a member that a kernel lacks can be asked for by
 * bpf_core_field_exists() before it is read.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

enum {
	false = 0,
	true = 1
};

/* include/uapi/linux/bpf.h: what our maps use */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_RECOMPUTE_CSUM = 1,
};

enum {
	BPF_SK_STORAGE_GET_F_CREATE = 1,
};

enum {
	BPF_SOCK_OPS_STATE_CB_FLAG = 4,
	BPF_SOCK_OPS_RTT_CB_FLAG = 8,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 64,
};

enum {
	BPF_WRITE_HDR_TCP_CURRENT_MSS = 1,
};

enum bpf_sock_ops_op {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_STATE_CB = 10,
	BPF_SOCK_OPS_RTT_CB = 12,
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,
};

/* Only the states that sockops programs are told of and ours ask for. */
enum {
	BPF_TCP_ESTABLISHED = 1,
	BPF_TCP_FIN_WAIT1 = 4,
	BPF_TCP_CLOSE = 7,
	BPF_TCP_CLOSE_WAIT = 8,
	BPF_TCP_LAST_ACK = 9,
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct netns_ipv4 {
	__u8 sysctl_tcp_shrink_window;
};

struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned long skc_flags;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct kernfs_node {
	const char *name;
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct inode {
	unsigned long i_ino;
};

struct file;

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[];
};

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
};

struct socket {
	struct sock *sk;
};

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

struct dst_entry {
	unsigned long _metrics;
};

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	__u8 sk_userlocks : 4;
	__u8 sk_shutdown;
	kuid_t sk_uid;
	struct socket *sk_socket;
	unsigned long sk_ino;
	struct sock_cgroup_data sk_cgrp_data;
	__u32 sk_priority;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
};

struct inet_sock {
	struct sock sk;
};

struct tcp_congestion_ops;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_ca_initialized : 1;
	__u8 icsk_ca_setsockopt : 1;
	struct {
		__u32 lrcvtime;
		__u16 rcv_mss;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
};

struct rb_node;

struct rb_root {
	struct rb_node *rb_node;
};

struct tcp_options_received {
	__u32 rcv_tsval;
	__u32 rcv_tsecr;
	__u16 saw_tstamp : 1;
	__u16 tstamp_ok : 1;
	__u16 rcv_wscale : 4;
	__u16 dsack : 1;
};

struct tcp_rack {
	__u32 rtt_us;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 mss_cache;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_ssthresh;
	__u32 prior_cwnd;
	__u32 max_packets_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 retrans_out;
	__u8 tcp_usec_ts : 1;
	__u8 is_cwnd_limited : 1;
	__u8 ecn_flags;
	__u64 tcp_mstamp;
	__u64 tcp_wstamp_ns;
	__u64 tcp_clock_cache;
	__u32 write_seq;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_wnd;
	__u32 data_segs_out;
	__u16 tcp_header_len;
	__u32 srtt_us;
	__u32 packets_out;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 rcv_nxt;
	__u32 rcv_wup;
	__u32 rcv_wnd;
	__u32 rcv_ssthresh;
	__u32 window_clamp;
	struct rb_root out_of_order_queue;
	__u32 undo_marker; /* 0: no reduction that could be undone */
	__u32 total_retrans;
	struct tcp_options_received rx_opt;
	struct tcp_rack rack;
};

enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_CWND_RESTART = 1,
	CA_EVENT_COMPLETE_CWR = 2,
	CA_EVENT_LOSS = 3,
};

enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

/* The members that we fill: libbpf matches them to the kernel's by name. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
	__u32 (*min_tso_segs)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

/* A member of it that we read. */
struct tcp_congestion_ops___key {
	__u32 key; /* of its name; no two controllers have the same */
};

/* What a tc program is given (include/uapi/linux/bpf.h). */
struct __sk_buff {
	__u32 len;
	__u32 protocol; /* network byte order */
	__u32 data; /* the linear part: from here */
	__u32 data_end;
	__u32 gso_segs;
	__u32 gso_size;
	__u32 wire_len;
	__u32 vlan_present;
};

struct bpf_spin_lock {
	__u32 val;
};

/* What an iterator of sockets, or of open files, is given. */
struct seq_file {
	unsigned long size;
	unsigned long count;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

/* What a sockops program is given (include/uapi/linux/bpf.h). */
struct bpf_sock_ops {
	__u32 op; /* enum bpf_sock_ops_op */
	__u32 args[4];
	__u32 is_fullsock;
	__u32 bpf_sock_ops_cb_flags;
	struct bpf_sock *sk;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct gnet_stats_queue {
	__u32 backlog;
};

struct Qdisc {
	unsigned int flags;
	struct hlist_node hash;
	__u32 parent;
	struct gnet_stats_queue qstats;
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	struct netdev_queue *_tx;
	unsigned int real_num_tx_queues;
	struct Qdisc *qdisc;
	struct hlist_head qdisc_hash[16];
};

struct sk_buff {
	struct net_device *dev;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif
