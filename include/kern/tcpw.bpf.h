/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What TCPW-LP's rooms share: a connection's state, its parameters, small getters. The
 * rooms:
 *
 *	kern/tcpw_measure.bpf.h	the RTT of an ACK; a path that became longer
 *	kern/tcpw_window.bpf.h	early reductions, growth, windows below small_window
 *	kern/tcpw_record.bpf.h	the record in `flows`
 *	bpf/tcpw_lp.bpf.c	the decision, losses, and the kernel's calls
 */
#ifndef CCBPF_KERN_TCPW_BPF_H
#define CCBPF_KERN_TCPW_BPF_H

#include "kern/flow.bpf.h"
#include "kern/gentle.bpf.h"
#include "kern/params.bpf.h"
#include "kern/small.bpf.h"
#include "law/backlog.h"
#include "law/chance.h"
#include "law/noise.h"
#include "law/spacing.h"
#include "law/westwood.h"

extern struct tcpw_lp_params params;

TCPW_LP_PARAMS(PARAM_GETTER)

/* A connection's state, in icsk_ca_priv. */
struct tcpw {
	struct backlog backlog;
	struct noise noise;
	struct spacing spacing;
	union {
		struct { /* slow start */
			struct gentle_start gentle;
			struct westwood westwood;
		};
		struct chance chance; /* avoiding */
	};
	union {
		u32 flat_us; /* us: first RTT of a constant series */
		u32 lost_us; /* telling: RTT before the loss, 0: none */
	};
	u32 published_kius; /* 1024 us: the record was written */
	u8 window; /* packets: the policy's window while small, else 0 */
	u8 avoiding : 1; /* slow start is behind us: EWR works */
	u8 paced : 1; /* we switched the kernel's pacing on */
	u8 undone : 1; /* the kernel may raise ssthresh over an EWR */
	u8 open : 1; /* init() has run: the kernel calls ssthresh() before,
		      * when it has to send its SYN again */
	u8 lost : 1; /* the last reduction was for a loss: undo gives it back */
	u8 telling : 1; /* a loss is being repaired; D_loss learns from it unless it is undone */
	u8 forgiven : 1; /* ... and was taken for chance */
	u8 strayed : 1; /* one RTT above the constant ones, of a delayed ACK */
};

_Static_assert(sizeof(struct tcpw) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

static __always_inline struct tcpw *tcpw_of(struct sock *sk)
{
	return ca_of(sk);
}

static __always_inline void tcpw_params(const struct tcpw *t, struct backlog_params *p)
{
	p->most = param_backlog_max();
	p->least = param_backlog_min();
	p->averaging = param_averaging();
	p->memory_s = param_delay_memory();
	p->floor_us = param_noise_floor();
	p->own_us = spacing_own_us(&t->spacing, backlog_base(&t->backlog));
	p->noise_us = noise_us(&t->noise);
}

/* packets: the window the policy reasons about */
static __always_inline u32 tcpw_window(struct tcp_sock *tp, struct tcpw *t)
{
	return t->window ?: tp->snd_cwnd;
}

/* 1/256 packet: the same with the fraction that the kernel counts */
static __always_inline u64 tcpw_window_q8(struct tcp_sock *tp, struct tcpw *t)
{
	u32 cwnd = tp->snd_cwnd ?: 1, count = law_min(tp->snd_cwnd_cnt, cwnd);

	if (t->window)
		return (u64)t->window << BACKLOG_Q8_SHIFT;
	return ((u64)cwnd << BACKLOG_Q8_SHIFT) + ((u64)count << BACKLOG_Q8_SHIFT) / cwnd;
}

static __always_inline u32 tcpw_delay_us(struct tcpw *t)
{
	return backlog_delay(&t->backlog, t->backlog.rtt_us);
}

static __always_inline u32 tcpw_gap_us(struct tcp_sock *tp, struct tcpw *t)
{
	u32 base_us = backlog_base(&t->backlog);

	return small_gap(tp, t->window, param_small_spread(), base_us ?: sock_srtt_us(tp));
}

/* An event with the present state of the flow. */
static __always_inline struct flow_event tcpw_now(struct tcpw *t)
{
	return (struct flow_event){
		.rtt_us = t->backlog.rtt_us,
		.delay_us = tcpw_delay_us(t),
	};
}

static __always_inline void tcpw_event(struct sock *sk, struct tcpw *t, u32 type, u32 a, u32 b)
{
	struct flow_event e = tcpw_now(t);

	e.type = type;
	e.a = a;
	e.b = b;
	flow_event(sk, &e);
}

#endif
