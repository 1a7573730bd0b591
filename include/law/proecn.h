/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The available bandwidth, from what comes back of a chirp (NF-TCP paper, 3.2, eq. 5). */
#ifndef CCBPF_LAW_PROECN_H
#define CCBPF_LAW_PROECN_H

#include "law/chirp.h"

enum proecn_verdict {
	PROECN_NONE, /* the chirp says nothing */
	PROECN_BELOW, /* less than what the chirp began with */
	PROECN_WITHIN,
	PROECN_ABOVE, /* more than it can tell */
};

enum proecn_signal { /* what decided; bits */
	PROECN_BY_ECE = 1,
	PROECN_BY_DELAY = 2,
};

/* What was sent, and what came back. Sample i is of the first packet of step i. */
struct proecn_chirp {
	u32 min_kbps; /* as it was sent, at least 1 */
	u32 spread; /* permille */
	u32 bytes; /* of a step on the line */
	u32 noise_us; /* a rise of the delay up to this is none */
	u16 sampled; /* bit i: there is a sample of step i */
	u16 ece; /* bit i: step i's came with ECE */
	u8 steps; /* sent */
	u8 burst; /* packets per step */
	u8 ecn; /* ECN was agreed: no ECE says something */
	u8 reserved;
	u32 delay_us[CHIRP_MOST]; /* RTT or one-way; only differences count */
};

struct proecn_estimate {
	u32 kbps;
	u8 verdict; /* enum proecn_verdict */
	u8 signal; /* enum proecn_signal, bits */
	u8 knee; /* k of eq. 5: the first step that met the queue, from 0; else steps */
	u8 reserved;
};

struct proecn_params {
	u32 spread; /* permille */
	u32 steps; /* N */
	u32 alpha; /* permille of the estimate that a chirp averages (r_avg) */
	u32 floor_kbps; /* never probe slower */
	u32 ceiling_kbps; /* ... nor faster: chirp_ceiling_kbps() */
};

/* What a connection keeps. */
struct proecn {
	u32 bw_kbps; /* the average; 0: no estimate (eq. 8) */
	u32 min_kbps; /* the next chirp begins with this */
	u32 last_kbps[2]; /* single estimates before this one */
	u32 at_kius; /* when the last estimate came */
	u8 steps; /* of the next chirp */
	u8 searching; /* probing slow start, or the range was lost */
	u8 have; /* estimates in last_kbps */
	u8 reserved;
};

LAW void proecn_estimate(const struct proecn_chirp *c,
			 struct proecn_estimate *e)
{
	(void)c;
	e->kbps = 0;
	e->verdict = PROECN_NONE;
	e->signal = 0;
	e->knee = 0;
	e->reserved = 0;
}

/* At first: probing slow start, 2 steps at the floor. */
LAW void proecn_init(struct proecn *p, const struct proecn_params *par)
{
	p->bw_kbps = 0;
	p->min_kbps = law_max(par->floor_kbps, 1);
	p->last_kbps[0] = 0;
	p->last_kbps[1] = 0;
	p->at_kius = 0;
	p->steps = CHIRP_LEAST;
	p->searching = 1;
	p->have = 0;
	p->reserved = 0;
}

/* The next chirp: steps, and kbit/s of its first gap. */
LAW u32 proecn_next_steps(const struct proecn *p)
{
	return chirp_steps(p->steps);
}

LAW u32 proecn_next_min_kbps(const struct proecn *p)
{
	return law_max(p->min_kbps, 1);
}

/* A chirp's feedback is complete. */
LAW void proecn_result(struct proecn *p, const struct proecn_params *par,
		       const struct proecn_chirp *c,
		       const struct proecn_estimate *e, u32 now_kius)
{
	(void)par;
	(void)c;
	if (e->verdict == PROECN_NONE)
		return;
	p->bw_kbps = e->kbps;
	p->at_kius = now_kius;
}

/* us until the next chirp: uniform, with the base RTT as its mean; random: 32 bits */
LAW u32 proecn_pause_us(u32 base_rtt_us, u32 random)
{
	return (u64)law_min(base_rtt_us, LAW_S32_MAX) * 2 * random >> 32;
}

/* kbit/s: BW_est of eq. 7; 0: eq. 8 */
LAW u32 proecn_bw_kbps(const struct proecn *p)
{
	return p->bw_kbps;
}

/* 1024 us since the last estimate */
LAW u32 proecn_age_kius(const struct proecn *p, u32 now_kius)
{
	return now_kius - p->at_kius;
}

/* A mark on data, a loss: no estimate until a new chirp. No chirp while marks arrive. */
LAW void proecn_congested(struct proecn *p)
{
	p->bw_kbps = 0;
	p->have = 0;
}

#endif
