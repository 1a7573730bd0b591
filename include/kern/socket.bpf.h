/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A controller's view of its socket: getters, the window setters, and the
 * kernel's own TCP functions. The verifier accepts a controller's `struct sock *`
 * as the tcp_sock that it is.
 */
#ifndef CCBPF_KERN_SOCKET_BPF_H
#define CCBPF_KERN_SOCKET_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "ccbpf/types.h"
#include "kern/compat.bpf.h"

#define AF_INET 2
#define AF_INET6 10
#define ADDRESS_MAPPED 0xffff0000 /* in6_addr[2] of ::ffff:a.b.c.d, network byte order */
#define TCP_INFINITE_SSTHRESH 0x7fffffff /* include/net/tcp.h */
#define TCP_CONG_NON_RESTRICTED 1 /* include/net/tcp.h: anyone may select it */
#define TCP_ECN_MODE_RFC3168 1 /* include/net/tcp.h: RFC 3168 was agreed */
#define TCP_ECN_MODE_ACCECN 0x10 /* ... or AccECN, RFC 9768 (7.0) */
#define TCP_ECN_QUEUE_CWR 2 /* ... the next data packet carries CWR */
#define CA_ACK_ECE 4 /* include/net/tcp.h, enum tcp_ca_ack_event_flags */
#define SK_PACING_NONE 0 /* include/net/sock.h, enum sk_pacing */
#define SK_PACING_NEEDED 1
#define SOL_TCP 6 /* include/linux/socket.h */
#define SRTT_SHIFT 3 /* tcp_sock.srtt_us is in 1/8 us */

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;

static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* The peer's address as IPv6: four words in network byte order. */
static __always_inline void sock_peer(const struct sock_common *c, u32 *words)
{
	if (c->skc_family == AF_INET6) {
		bpf_probe_read_kernel(words, 16, &c->skc_v6_daddr);
		return;
	}
	words[0] = words[1] = 0;
	words[2] = ADDRESS_MAPPED;
	words[3] = c->skc_daddr;
}

/* The kernel's key of the controller that the socket has. */
static __always_inline u32 sock_controller_key(struct tcp_sock *tp)
{
	const struct tcp_congestion_ops___key *ops = (const void *)tp->inet_conn.icsk_ca_ops;

	return ops->key;
}

/* The controller's own 104 bytes. */
static __always_inline void *ca_of(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline __u8 sock_ca_state(struct sock *sk)
{
	struct inet_connection_sock *icsk = (void *)sk;

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
}

/* Does the peer echo marks, by RFC 3168 or by AccECN? */
static __always_inline bool sock_ecn(struct tcp_sock *tp)
{
	return tp->ecn_flags & (TCP_ECN_MODE_RFC3168 | TCP_ECN_MODE_ACCECN);
}

/* Does it echo a mark until it sees CWR (RFC 3168), so that CWR on each packet asks for an echo
 * of each? */
static __always_inline bool sock_ecn_classic(struct tcp_sock *tp)
{
	return tp->ecn_flags & TCP_ECN_MODE_RFC3168;
}

/* Did the ACK being processed carry timestamps? */
static __always_inline bool sock_stamped(struct tcp_sock *tp)
{
	struct tcp_options_received *rx = &tp->rx_opt;

	return BPF_CORE_READ_BITFIELD(rx, saw_tstamp) && rx->rcv_tsecr;
}

static __always_inline bool sock_timestamps(struct tcp_sock *tp)
{
	struct tcp_options_received *rx = &tp->rx_opt;

	return BPF_CORE_READ_BITFIELD(rx, tstamp_ok);
}

/* us: the kernel's smoothed RTT, at least 1 */
static __always_inline u32 sock_srtt_us(struct tcp_sock *tp)
{
	u32 srtt_us = tp->srtt_us >> SRTT_SHIFT;

	return srtt_us ?: 1;
}

/* us: the round trip of the newest packet that this ACK covers. Without SACK the kernel does not
 * keep it (tcp_clean_rtx_queue(), net/ipv4/tcp_input.c): then it is the smoothed RTT. */
static __always_inline u32 sock_rtt_us(struct tcp_sock *tp)
{
	return tp->rack.rtt_us ?: tp->srtt_us >> SRTT_SHIFT;
}

/* packets that the kernel takes to be on the way: tcp_packets_in_flight() */
static __always_inline u32 sock_in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

static __always_inline bool sock_in_slow_start(struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Does the window limit us? As tcp_is_cwnd_limited(), include/net/tcp.h. */
static __always_inline bool sock_cwnd_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return sock_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* In ssthresh(): is it for a loss, and not for a mark? A tail loss that a probe has
 * repaired and a drop at our own device leave no packet lost (tcp_process_tlp_ack(),
 * tcp_enter_cwr()); with ECN they look like a mark. */
static __always_inline bool sock_lost(struct tcp_sock *tp)
{
	return tp->lost_out || !sock_ecn(tp);
}

/* In undo_cwnd(): does the kernel bring back the first slow start, whose ssthresh is infinite? */
static __always_inline bool sock_undo_unbounds(struct tcp_sock *tp)
{
	return tp->prior_ssthresh >= TCP_INFINITE_SSTHRESH;
}

/* A reduction that did not come from the kernel: ssthresh is lowered too, or the flow would
 * slow-start straight back. Never 0: the kernel does not check a direct store. */
static __always_inline void sock_cut_cwnd(struct tcp_sock *tp, u32 cwnd)
{
	cwnd = cwnd ?: 1;
	tp->snd_cwnd = cwnd;
	tp->snd_cwnd_cnt = 0;
	if (tp->snd_ssthresh > cwnd)
		tp->snd_ssthresh = cwnd;
}

/* Reno's answer to a loss (RFC 5681, eq. 4) */
static __always_inline u32 sock_reno_ssthresh(struct tcp_sock *tp)
{
	u32 half = tp->snd_cwnd >> 1;

	return half < 2 ? 2 : half;
}

#endif
