/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the headers of the TCP-LP family share: a connection's state, its parameters, small
 * getters, events.
 *
 * An object with more parameters than TCP-LP's defines LP_PARAMS (a table that begins with
 * TCP-LP's) and LP_PARAMS_STRUCT before it includes kern/lp.bpf.h. Every object defines
 * its parameters by LP_PARAMS_DEFINE().
 */
#ifndef CCBPF_KERN_LP_STATE_BPF_H
#define CCBPF_KERN_LP_STATE_BPF_H

#include "kern/flow.bpf.h"
#include "kern/gentle.bpf.h"
#include "kern/params.bpf.h"
#include "kern/small.bpf.h"
#include "law/delay.h"
#include "law/inference.h"
#include "law/noise.h"
#include "law/silence.h"
#include "law/spacing.h"

/* samples that an indication needs after a restart of the smoothing: one late ACK is not
 * enough, and a window of five packets still gives both within an RTT. A small window sends
 * so little that each sample counts. */
#define LP_SAMPLES 2

#define LP_BARE 2 /* losses without an early cut between them: no queue shows before them */
#define LP_BARE_MOST 3

/* A connection's state, in icsk_ca_priv. */
struct lp {
	struct delay delay;
	struct noise noise;
	struct spacing spacing;
	struct silence silence;
	union {
		struct gentle_start gentle; /* until the first reduction */
		struct inference inference; /* after it (avoiding) */
	};
	u32 queue_us; /* us: last queueing delay */
	u32 flat_us; /* us: first of a constant series: RTT while small, else a round's least queue */
	u32 published_kius; /* 1024 us: the record was written */
	u8 window; /* packets: the policy's window while small, else 0 */
	u8 avoiding : 1; /* slow start is behind us: indications count */
	u8 paced : 1; /* we switched the kernel's pacing on */
	u8 undone : 1; /* the kernel may raise ssthresh over an early cut */
	u8 echoed : 1; /* the last ACK carried ECE */
	u8 answered : 1; /* an echo since the last reaction (tcp_lp_ecn) */
	u8 open : 1; /* init() has run: the kernel calls ssthresh() before,
		      * when it has to send its SYN again */
	u8 resumed : 1; /* an undo has brought back the first slow start */
	u8 lost : 1; /* the last reduction was for a loss: undo gives it back */
	u8 signal : 2; /* enum ccbpf_signal */
	u8 telling : 1; /* queue_us is that of a loss: learned after the repair, unless undone */
	u8 starting : 1; /* ... and that loss was in the first slow start */
	u8 bare : 2; /* losses since the last early cut, up to LP_BARE_MOST */
	u8 marked : 2; /* halves of delay_memory until marks are forgotten (tcp_lp_ecn) */
	union {
		u8 flat; /* samples of a constant delay, while small */
		u8 row; /* else: a policy's row of its table, a hint */
	};
};

_Static_assert(sizeof(struct lp) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

#ifndef LP_PARAMS
#define LP_PARAMS TCP_LP_PARAMS
#define LP_PARAMS_STRUCT struct tcp_lp_params
#endif

#define LP_PARAMS_DEFINE() \
	LP_PARAMS_STRUCT params SEC(".data.params") = { LP_PARAMS(PARAM_DEFAULT) }

extern LP_PARAMS_STRUCT params;

LP_PARAMS(PARAM_GETTER)

static __always_inline struct lp *lp_of(struct sock *sk)
{
	return ca_of(sk);
}

static __always_inline void lp_delay_params(const struct lp *lp, struct delay_params *p)
{
	p->delta = param_delta();
	p->smoothing = param_smoothing();
	p->memory_s = param_delay_memory();
	p->floor_us = param_threshold_floor();
	p->least = LP_SAMPLES;
	p->noise_us = noise_us(&lp->noise);
}

/* packets: the window the policy reasons about */
static __always_inline u32 lp_window(struct tcp_sock *tp, struct lp *lp)
{
	return lp->window ?: tp->snd_cwnd;
}

/* us between two pairs of a small window. It is counted in base RTTs: a gap that grew with the
 * queue of other flows would still be long when they are gone. */
static __always_inline u32 lp_gap_us(struct tcp_sock *tp, struct lp *lp)
{
	return small_gap(tp, lp->window, param_small_spread(),
			 delay_base_us(&lp->delay) ?: sock_srtt_us(tp));
}

static __always_inline void lp_event(struct sock *sk, struct lp *lp, u32 type, u32 a, u32 b)
{
	struct flow_event e = {
		.type = type,
		.rtt_us = sock_rtt_us(tcp_of(sk)),
		.delay_us = lp->queue_us,
		.a = a,
		.b = b,
	};

	flow_event(sk, &e);
}

static __always_inline void lp_tell_reduction(struct sock *sk, struct lp *lp, bool loss, u32 to)
{
	struct flow_event e = {
		.rtt_us = sock_rtt_us(tcp_of(sk)),
		.delay_us = lp->queue_us,
	};

	flow_reduced(sk, &e, loss, to);
}

/* The delay that the flow yields to. */
static __always_inline u32 lp_delay_signal(const struct lp *lp)
{
	return lp->delay.tick_ns ? CCBPF_SIGNAL_OWD : CCBPF_SIGNAL_RTT;
}

#endif
