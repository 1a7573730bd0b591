/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What le's rooms share: a connection's state, its parameters, small getters, and its record
 * in `flows`. kern/le_measure.bpf.h reads the path, bpf/le.bpf.c has the story.
 */
#ifndef CCBPF_KERN_LE_BPF_H
#define CCBPF_KERN_LE_BPF_H

#include "kern/flow.bpf.h"
#include "kern/gentle.bpf.h"
#include "kern/params.bpf.h"
#include "kern/small.bpf.h"
#include "law/delay.h"
#include "law/falls.h"
#include "law/le_loss.h"
#include "law/silence.h"
#include "law/spacing.h"

extern struct le_params params;

LE_PARAMS(PARAM_GETTER)

/* A connection's state, in icsk_ca_priv. */
struct le_flow {
	struct delay delay; /* its average is not used */
	struct noise noise;
	struct spacing spacing;
	struct silence silence;
	struct le law;
	u32 published_kius; /* 1024 us: the record was written */
};

_Static_assert(sizeof(struct le_flow) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

static __always_inline struct le_flow *le_of(struct sock *sk)
{
	return ca_of(sk);
}

/* law_forget(): what the verifier knows of each part would double its work. le_ssthresh took 659
 * 000 instructions, a minute on Linux 6.12; with it 40 000. */
static __always_inline void le_path(struct le_flow *f, struct le_path *p)
{
	p->base_us = law_forget(delay_base_us(&f->delay));
	p->base_seen = law_forget(le_base_seen(f->delay.rtt.now, f->delay.rtt.before));
	p->threshold_us = param_threshold();
	p->threshold_min_us = law_min(param_threshold_min(), p->threshold_us);
	p->noise_us = law_forget(noise_us(&f->noise));
	p->noisy_us = p->threshold_us * LE_NOISY / 8;
	p->stood_us = law_forget(silence_stood_us(&f->silence));
	p->packet_us = f->spacing.packet_us;
	p->gap_max = param_gap_max();
	p->gap_share = param_gap_share();
	p->quiet_rounds = param_quiet_rounds();
}

static __always_inline bool le_small(struct le_flow *f)
{
	return f->law.stage == LE_SMALL;
}

/* 1/256 packet: the window with the fraction that growth has counted */
static __always_inline u32 le_window_q8(struct tcp_sock *tp, struct le_flow *f)
{
	u32 every = le_every(&f->law, tp->snd_cwnd, false) ?: 1;

	return le_q8(tp->snd_cwnd) +
	       ((u64)law_min(tp->snd_cwnd_cnt, every - 1) << LE_Q8_SHIFT) / every;
}

/* us: between two pairs */
static __always_inline u32 le_gap_us(struct tcp_sock *tp, struct le_flow *f)
{
	u32 base_us = delay_base_us(&f->delay);

	return small_gap_us(le_gap(&f->law), base_us ?: sock_srtt_us(tp));
}

/* Another controller has the flow from now on: where only pairs were sent it begins with slow start,
 * to the window of before. In CWR, at whose end the kernel makes ssthresh the window, it begins there;
 * a repair is left alone. */
static __always_inline void le_hand_over(struct sock *sk, struct le_flow *f)
{
	struct tcp_sock *tp = tcp_of(sk);
	u8 state = sock_ca_state(sk);

	if (!le_small(f) || sk->__sk_common.skc_state == BPF_TCP_CLOSE)
		return;
	if (state <= TCP_CA_Disorder)
		tp->snd_ssthresh = law_max(f->law.back_q8 >> LE_Q8_SHIFT, LE_RETURN);
	else if (state == TCP_CA_CWR)
		tp->snd_ssthresh = LE_RETURN;
}

/* An event with the present state of the flow. */
static __always_inline struct flow_event le_now(struct sock *sk, struct le_flow *f)
{
	return (struct flow_event){
		.rtt_us = sock_rtt_us(tcp_of(sk)),
		.delay_us = le_us(f->law.last),
	};
}

static __always_inline void le_event(struct sock *sk, struct le_flow *f, u32 type, u32 a, u32 b)
{
	struct flow_event e = le_now(sk, f);

	e.type = type;
	e.a = a;
	e.b = b;
	flow_event(sk, &e);
}

/* --- publish ------------------------------------------------------------ */

static __always_inline enum ccbpf_phase le_phase(struct sock *sk, struct le_flow *f)
{
	if (sock_ca_state(sk) >= TCP_CA_CWR)
		return CCBPF_PHASE_RECOVERY;
	if (le_small(f))
		return CCBPF_PHASE_SMALL;
	if (f->law.stage != LE_FREE)
		return CCBPF_PHASE_INFERENCE;
	return flow_phase(tcp_of(sk));
}

static __always_inline void le_fill_own(struct tcp_sock *tp, struct le_flow *f,
					struct ccbpf_flow_le *own)
{
	own->block_delay_us = le_us(f->law.q);
	own->cut_delay_us = le_us(f->law.cut_q);
	own->noise_us = noise_us(&f->noise);
	own->packet_us = f->spacing.packet_us;
	own->back = f->law.back_q8 >> LE_Q8_SHIFT;
	own->every = le_every(&f->law, tp->snd_cwnd, sock_in_slow_start(tp));
	own->pair_gap_us = le_small(f) ? le_gap_us(tp, f) : 0;
	own->peer_tick_ns = f->delay.tick_ns;
}

static __noinline int le_fill(struct sock *sk)
{
	struct ccbpf_flow *r = flow_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	struct le_path p;

	if (!r)
		return 0;
	le_path(f, &p);
	flow_fill(tp, r);
	r->phase = le_phase(sk, f);
	r->delay_source = f->delay.tick_ns ? CCBPF_SIGNAL_OWD : CCBPF_SIGNAL_RTT;
	r->rtt_us = sock_rtt_us(tp);
	r->rtt_min_us = p.base_us;
	r->delay_us = le_us(f->law.last);
	r->delay_smoothed_us = le_us(f->law.q);
	r->delay_threshold_us = le_threshold(&f->law, &p);
	r->delay_max_us = le_us(f->law.most);
	r->delay_base_us = f->delay.tick_ns ? aged_min(&f->delay.owd) : 0;
	le_fill_own(tp, f, &r->le);
	return 0;
}

static __always_inline void le_publish(struct sock *sk, struct le_flow *f)
{
	if (law_unlikely(flow_due(tcp_of(sk), &f->published_kius)))
		le_fill(sk);
}

#endif
