/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When NF-TCP sends a chirp, and how a chirp ends (NF-TCP paper, 3.2). What its estimate
 * changes is in kern/estimate.bpf.h.
 *
 *	due	after an RTT without mark and loss, when the pause is over
 *	plan	steps and rates by law/range.h, within what data and timer allow
 *	pause	while losses come without a queue 32 base RTTs at the least (law/nf.h, 8.);
 *		else uniformly distributed with mean base RTT, while the last estimate promises
 *		a quarter more than the flow has, or while the search goes on; otherwise,
 *		and after a chirp without a result, chirps may take probe_cost of the time
 *	result	BW_est becomes share and target (eq. 7); it ends slow start
 *
 * In the first slow start there is no chirp unless early_probe is set: a chirp costs an
 * RTT in which the window would double, and the mark that ends slow start gives the same
 * information. One exception: the delay was high for a whole round trip, so there is a
 * queue that nobody marks. An estimate then says where that slow start should have
 * ended; without an estimate it ends at the present window.
 */
#ifndef CCBPF_KERN_PROBE_BPF_H
#define CCBPF_KERN_PROBE_BPF_H

#include "kern/chirp_answer.bpf.h"
#include "kern/estimate.bpf.h"
#include "kern/pace.bpf.h"

#define PROBE_HUNGRY_SHIFT 2 /* a target above the window by a quarter */
#define PROBE_MISSED 2 /* discarded chirps in a row that end slow start */
#define PROBE_QUEUED 0xffff /* a queue of any window: it stood when the chirp began */

/* --- when -------------------------------------------------------------- */

/* In the first slow start: was the delay high for a whole round trip? The window is twice
 * what was acknowledged. */
static __always_inline bool probe_queued(struct tcp_sock *tp, struct nf *nf)
{
	return !nf->avoiding &&
	       nf->queued >= law_min(loan_window(tp, &nf->loan) >> 1, PROBE_QUEUED);
}

/* Does the last estimate promise more than the flow has, or is it still to be found? */
static __always_inline bool probe_hungry(struct nf *nf, struct nf_probe *p, u32 window)
{
	return p->range.searching || nf->target > window + (window >> PROBE_HUNGRY_SHIFT);
}

/* The next chirp: after the paper's pause; and where the last one was of little use, not
 * before its cost is within probe_cost. The first slow start does not wait for that: its
 * window doubles meanwhile. */
static __always_inline void probe_pause(struct sock *sk, struct nf *nf, struct nf_probe *p,
					bool useful)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 cost = param_probe_cost();
	u32 base_us = nf_base_us(nf) ?: sock_srtt_us(tp);
	u64 pause_us = range_pause_us(base_us, bpf_get_prandom_u32());

	if (nf->avoiding && (!useful || !probe_hungry(nf, p, loan_window(tp, &nf->loan))))
		pause_us += (u64)p->cost_us * (1000 - cost) / cost;
	nf->due_us = tp->tcp_mstamp + pause_us + nf_rest_us(nf);
}

/* --- how it ends ------------------------------------------------------- */

/* There is a queue, and no chirp can show by how much this slow start went too far: it ends at
 * the present window. A chirp drains the queue before it begins. So after the second chirp in a
 * row that was discarded, a queue before that chirp is enough. */
static __always_inline void probe_unanswered(struct sock *sk, struct nf *nf, u32 missed)
{
	bool again = !nf->avoiding && nf->queued && missed >= PROBE_MISSED;

	if (again || probe_queued(tcp_of(sk), nf))
		nf_leave_slow_start(sk, loan_window(tcp_of(sk), &nf->loan));
}

/* The chirp ended early, or its result cannot be used: there is no estimate. */
static __noinline int probe_discard(struct sock *sk, u32 why)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = probe_of(sk);

	if (!p) {
		nf->chirp.phase = CHIRP_NONE;
		if (nf->loan.to == LOAN_CHIRP)
			loan_return(sk, &nf->loan);
		return 0;
	}
	p->discarded++;
	p->why = why;
	p->cost_us = tcp_of(sk)->tcp_mstamp - p->flight.begun_us;
	chirp_end(sk, &nf->loan, &nf->chirp, &p->flight);
	probe_pause(sk, nf, p, why == CCBPF_CHIRP_MARK && p->range.searching && !p->missed);
	p->missed++;
	nf_event(sk, nf, CCBPF_EVENT_CHIRP_DISCARDED, why, p->flight.c.steps);
	probe_unanswered(sk, nf, p->missed);
	return 0;
}

/* us: what a chirp costs the flow, which would have sent as many packets in less time
 * without it */
static __always_inline u32 probe_cost_us(struct sock *sk, struct nf *nf, struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);
	u64 took_us = tp->tcp_mstamp - f->begun_us;
	u64 worth_us = (u64)f->c.steps * f->c.burst * sock_srtt_us(tp) /
		       law_max(loan_window(tp, &nf->loan), 1);

	return took_us > worth_us ? took_us - worth_us : 0;
}

/* All packets of the chirp that will leave have left. */
static __always_inline void probe_left(struct sock *sk, struct nf *nf, struct nf_probe *p)
{
	struct chirp_flight *f = &p->flight;

	p->cost_us = probe_cost_us(sk, nf, f);
	p->bytes += tcp_of(sk)->snd_nxt - f->seq0;
	chirp_left(sk, &nf->loan, &nf->chirp, f);
	nf->due_us = f->patience_us;
	nf_event(sk, nf, CCBPF_EVENT_CHIRP, f->c.min_kbps, f->c.steps);
}

/* All packets of the chirp were acknowledged. */
static __always_inline int probe_returned(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = probe_of(sk);
	struct range_params par;

	if (!p)
		return 0;
	probe_params(sk, &par);
	chirp_estimate(&p->range, &p->flight.c, &p->estimate, &par,
		       tcp_of(sk)->tcp_mstamp >> KIUS_SHIFT);
	if (p->estimate.verdict == KNEE_NONE) {
		probe_discard(sk, CCBPF_CHIRP_SPARSE);
		return 0;
	}
	nf->chirp.phase = CHIRP_NONE;
	p->complete++;
	p->missed = 0;
	probe_refresh(sk, nf, p);
	nf->doubted = !!p->range.doubt;
	probe_pause(sk, nf, p, true);
	nf_event(sk, nf, CCBPF_EVENT_ESTIMATE, p->estimate.kbps, range_bw_kbps(&p->range));
	probe_ends_slow_start(sk, nf, p);
	return 0;
}

/* --- how it begins ----------------------------------------------------- */

/* Not static, so that the verifier proves it once, for any argument. */
__noinline int probe_take_carried(struct nf_range *r, struct range_params *par, u32 kbps,
				  u32 search)
{
	if (!r || !par)
		return 0;
	if (r->searching && !search)
		range_begin(r, par, kbps);
	else
		range_carried(r, par, kbps);
	return 0;
}

/* The rate of the flow's last round trip was available. */
static __always_inline void probe_carried(struct sock *sk, struct nf_probe *p)
{
	struct range_params par;

	if (!sock_cwnd_limited(tcp_of(sk)))
		return;
	probe_params(sk, &par);
	probe_take_carried(&p->range, &par, nf_has_kbps(sk, tcp_of(sk)->snd_cwnd),
			   param_early_probe());
}

/* Steps and rates. A chirp is not limited by the window, as in the paper, unless its steps
 * are bursts. */
static __always_inline void probe_plan(struct nf *nf, struct nf_probe *p, u32 window, u32 packet,
				       struct chirp_plan *plan)
{
	u32 max_kbps;

	plan->steps = range_next_steps(&p->range);
	plan->min_kbps = range_next_min_kbps(&p->range);
	plan->spread = param_spread();
	plan->noise_us = param_noise_floor();
	max_kbps = chirp_max_kbps(plan->min_kbps, plan->spread, plan->steps);
	plan->burst = chirp_burst(max_kbps, packet, CHIRP_GAP_NS);
	if (plan->burst > 1)
		plan->steps = law_min(plan->steps, (window - 1) / plan->burst);
	plan->dscp = nf->dscp && nf->dscp == param_dscp() ? param_probe_dscp() : 0;
	plan->dscp_data = nf->dscp;
}

/* The reason why no chirp may begin now, of those that need no plan. */
static __always_inline enum ccbpf_chirp_wait probe_waits(struct sock *sk, struct nf *nf)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (!sock_ecn(tp))
		return CCBPF_CHIRP_WAIT_ECN;
	if (!sock_ecn_classic(tp))
		return CCBPF_CHIRP_WAIT_ACCECN;
	if (!param_probe())
		return CCBPF_CHIRP_WAIT_OFF;
	if (sk->sk_pacing_status > SK_PACING_NEEDED)
		return CCBPF_CHIRP_WAIT_FQ;
	if (!nf->avoiding && !param_early_probe() && !probe_queued(tp, nf))
		return CCBPF_CHIRP_WAIT_SLOW_START;
	if (!sock_cwnd_limited(tp))
		return CCBPF_CHIRP_WAIT_DATA;
	return CCBPF_CHIRP_WAIT_NONE;
}

/* Plan the next chirp. Returns why it cannot begin, or CCBPF_CHIRP_WAIT_NONE. */
static __always_inline enum ccbpf_chirp_wait
probe_prepare(struct sock *sk, struct nf *nf, struct nf_probe *p, struct chirp_plan *plan)
{
	probe_carried(sk, p);
	probe_plan(nf, p, tcp_of(sk)->snd_cwnd, chirp_packet_bytes(sk), plan);
	if (plan->steps < CHIRP_LEAST)
		return CCBPF_CHIRP_WAIT_WINDOW;
	if (!chirp_possible(sk, plan->steps * plan->burst))
		return CCBPF_CHIRP_WAIT_DATA;
	return CCBPF_CHIRP_WAIT_NONE;
}

/* If the next chirp is possible, begin it. */
static __noinline int probe_begin(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	struct chirp_plan plan;
	struct nf_probe *p;

	nf->waits = probe_waits(sk, nf);
	if (nf->waits == CCBPF_CHIRP_WAIT_SLOW_START)
		return 0; /* asked again at the next ACK: an RTT later the window has doubled */
	nf->due_us = tp->tcp_mstamp + sock_srtt_us(tp); /* the next attempt, if this one fails */
	if (nf->waits == CCBPF_CHIRP_WAIT_DATA)
		probe_unanswered(sk, nf, 0);
	if (nf->waits)
		return 0;
	p = probe_new(sk, nf);
	if (!p)
		return 0;
	nf->waits = probe_prepare(sk, nf, p, &plan);
	if (nf->waits) {
		probe_unanswered(sk, nf, 0);
		return 0;
	}
	nf->paced |= pace_on(sk);
	if (probe_queued(tp, nf))
		nf->queued = PROBE_QUEUED;
	p->sent++;
	chirp_begin(sk, &nf->loan, &nf->chirp, &p->flight, &plan);
	return 0;
}

/* --- while it lasts ---------------------------------------------------- */

/* The kernel is about to send while a chirp has the window. Returns packets: how many it
 * may send at once. */
static __noinline u32 probe_step(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = probe_of(sk);
	u32 turn;

	if (!p || !param_probe()) {
		probe_discard(sk, CCBPF_CHIRP_OFF);
		return NF_TSO_SEGS;
	}
	if (nf->chirp.phase == CHIRP_DRAINING) {
		if (!chirp_calm(sk)) {
			probe_discard(sk, CCBPF_CHIRP_LOSS);
			return NF_TSO_SEGS;
		}
		if (tcp_of(sk)->tcp_mstamp > p->flight.patience_us) {
			probe_discard(sk, CCBPF_CHIRP_STALE);
			return NF_TSO_SEGS;
		}
		if (!chirp_drain(sk, &p->flight))
			return 1;
		chirp_start(sk, &nf->chirp, &p->flight);
	}
	turn = chirp_transmit(sk, &p->flight);
	if (turn == CHIRP_GOES_ON)
		return p->flight.c.burst;
	if (turn == CHIRP_ALL_LEFT)
		probe_left(sk, nf, p);
	else
		probe_discard(sk, turn);
	return NF_TSO_SEGS;
}

/* An ACK while chirp packets are on their way. A mark ends a chirp that is still being
 * sent: faster steps would only make the queue longer. */
static __always_inline int probe_ack(struct sock *sk, bool ece)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = probe_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	bool covers = chirp_covers(tp, &nf->chirp);

	if (!p)
		return 0;
	if (covers)
		chirp_acked(tp, &p->flight, ece);
	if (nf->chirp.phase == CHIRP_SENDING) {
		if (!ece || !covers)
			return 0;
		chirp_cut_short(tp, &p->flight);
		if (p->flight.c.steps < CHIRP_LEAST) {
			probe_discard(sk, CCBPF_CHIRP_SHORT);
			return 0;
		}
		probe_left(sk, nf, p);
	}
	if (chirp_returned(tp, &nf->chirp, &p->flight))
		probe_returned(sk);
	return 0;
}

#endif
