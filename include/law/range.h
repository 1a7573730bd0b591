/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * BW_est, and where the next chirp looks (NF-TCP paper, 3.2: "Dynamic probing rate
 * adjustment").
 *
 *	search ------ A is below the chirp's end ------> follow
 *	 |  2, 4, 8 ... N steps, each from the		  |  N steps around the average (eq. 6)
 *	 |  end of the one before			  |
 *	 +------- range_begin(): a rate is known --------+
 *
 *	estimate			into the average; BW_est is the average
 *	chirp without a trace of a queue	the average is at least the chirp's end
 *	mark, loss			no BW_est until the next chirp; the average is at most
 *					what the flow had
 *	loss below the target		doubt: no chirp for 8 2^doubt round trips
 *
 * Deviations from the paper:
 *
 *  1. One chirp on a path with bursty traffic is off by a third (tests/unit/test_knee.py):
 *     the first four estimates are averaged equally, from then on a new one weighs a
 *     quarter. A mark leaves the average the weight of one estimate. No chirp that met a
 *     queue raises the average by more than a half at once.
 *  2. A chirp without a trace of a queue is no estimate but a bound. It replaces the average.
 *     If it is below the average (a small window has few steps), the next estimate replaces
 *     the bound.
 *  3. Eq. 6 with r_avg = alpha BW_est ends at 2.1 BW_est. The first mark comes at 3.6 A
 *     (law/knee.h, 1.), so r_avg is twice that here: a chirp spans 0.4 ... 4.2 BW_est.
 *  4. Eq. 5's "0 below MinRate" holds only for chirps that begin at the floor, because
 *     elsewhere the range follows the estimate downwards. An estimate of at least 3/4 of the
 *     floor is not "below": where A is the floor itself, estimates are a little less as often
 *     as a little more.
 *  5. The rate that the flow carries without a mark is available to it: the average is at
 *     least that.
 *  6. Feedback of chirps can be forged, and the estimate is then as large as the forger
 *     likes. A loss while the window is below the target of the last estimate shows that
 *     less was available. The next chirp then waits 16 round trips, and twice as long (to
 *     2048) after each further such loss; a window that reaches its target takes back one
 *     doubling.
 *  7. The search goes on while a chirp finds half of its end or more, and N steps do not end it. The
 *     average is the end meanwhile.
 *
 * Ranges: rates u32 kbit/s, up to 2.1 Tbit/s.
 */
#ifndef CCBPF_LAW_RANGE_H
#define CCBPF_LAW_RANGE_H

#include "law/knee.h"

#define RANGE_GAIN 4 /* estimates in the average */
#define RANGE_MEMORY 1 /* ... that a mark or a loss leaves */
#define RANGE_LIFT 2 /* see 3. */
#define RANGE_KBPS_MAX LAW_S32_MAX
#define RANGE_DOUBT_MOST 8
#define RANGE_DOUBT_SHIFT 3 /* 8 2^doubt RTT */

struct range_params {
	u32 spread; /* permille */
	u32 steps; /* N */
	u32 alpha; /* permille of the estimate that a chirp averages (r_avg) */
	u32 floor_kbps; /* never probe slower */
	u32 ceiling_kbps; /* ... nor faster: chirp_ceiling_kbps() */
};

/* The state of a connection. */
struct nf_range {
	u32 avg_kbps; /* of the estimates */
	u32 bw_kbps; /* BW_est; 0: none (eq. 8) */
	u32 min_kbps; /* the next chirp begins with this */
	u32 at_kius; /* when the last estimate came */
	u8 steps; /* of the next chirp */
	u8 searching; /* probing slow start */
	u8 have; /* estimates in the average, up to RANGE_GAIN */
	u8 doubt; /* losses below the target, see 6. */
};

/* At first: the search, with 2 steps at the floor. */
LAW void range_init(struct nf_range *r, const struct range_params *par)
{
	r->avg_kbps = 0;
	r->bw_kbps = 0;
	r->min_kbps = law_max(par->floor_kbps, 1);
	r->at_kius = 0;
	r->steps = CHIRP_LEAST;
	r->searching = 1;
	r->have = 0;
	r->doubt = 0;
}

/* The next chirp: steps, and kbit/s of its first gap. */
LAW u32 range_next_steps(const struct nf_range *r)
{
	return chirp_steps(r->steps);
}

LAW u32 range_next_min_kbps(const struct nf_range *r)
{
	return law_max(r->min_kbps, 1);
}

/* kbit/s of the first gap: at least the floor, and such that the last gap is within the ceiling
 * where the floor allows it */
LAW u32 range_within(const struct range_params *par, u32 min_kbps, u32 steps)
{
	u32 ceiling_kbps = par->ceiling_kbps, max_kbps;

	min_kbps = law_max(law_min(min_kbps, ceiling_kbps), law_max(par->floor_kbps, 1));
	max_kbps = chirp_max_kbps(min_kbps, par->spread, steps);
	if (max_kbps > ceiling_kbps)
		min_kbps = (u64)min_kbps * ceiling_kbps / max_kbps;
	return law_max(law_max(min_kbps, par->floor_kbps), 1);
}

/* Eq. 6 (see 3.) */
LAW void range_follow(struct nf_range *r, const struct range_params *par)
{
	u64 avg_kbps = (u64)r->avg_kbps * law_min(par->alpha, 1000) * RANGE_LIFT / 1000;

	r->steps = chirp_steps(par->steps);
	r->min_kbps = range_within(par,
				   chirp_min_kbps(avg_kbps > ~0u ? ~0u : avg_kbps, par->spread,
						  r->steps, par->floor_kbps),
				   r->steps);
}

/* The flow carries this rate: there is no search, and the first chirp is around it. */
LAW void range_begin(struct nf_range *r, const struct range_params *par, u32 kbps)
{
	r->searching = 0;
	r->avg_kbps = law_min(kbps, RANGE_KBPS_MAX);
	r->have = RANGE_MEMORY;
	range_follow(r, par);
}

LAW void range_average(struct nf_range *r, u32 kbps)
{
	u32 base_kbps = law_max(r->avg_kbps, r->min_kbps), most_kbps, to_kbps;

	if (r->have < RANGE_GAIN)
		r->have++;
	most_kbps = law_min(r->avg_kbps, RANGE_KBPS_MAX) + base_kbps / 2;
	to_kbps = law_ewma(r->avg_kbps, law_min(kbps, RANGE_KBPS_MAX), r->have);
	r->avg_kbps = r->have > 1 ? law_min(to_kbps, most_kbps) : to_kbps;
}

/* Does the search go on from the end of this chirp? */
LAW bool range_goes_on(const struct nf_range *r, const struct range_params *par,
		       const struct knee_estimate *e, u32 max_kbps)
{
	return r->searching && max_kbps < par->ceiling_kbps && e->raw_kbps >= max_kbps / 2;
}

LAW void range_go_on(struct nf_range *r, const struct range_params *par, u32 steps, u32 max_kbps)
{
	r->avg_kbps = law_min(max_kbps, RANGE_KBPS_MAX);
	r->have = 0;
	r->steps = law_min(chirp_steps(steps) * 2, chirp_steps(par->steps));
	r->min_kbps = range_within(par, max_kbps, r->steps);
}

/* kbit/s: by eq. 5 an estimate below the floor is 0 (see 4.) */
LAW u32 range_worth(u32 kbps, u32 floor_kbps)
{
	return kbps * 4ull < floor_kbps * 3ull ? 0 : kbps;
}

/* What one chirp does to the average (see 1., 2., 4.). */
LAW void range_take(struct nf_range *r, const struct range_params *par, const struct knee_chirp *c,
		    const struct knee_estimate *e)
{
	u32 kbps = e->raw_kbps;

	r->searching = 0;
	if (e->verdict != KNEE_ABOVE) {
		if (c->min_kbps <= par->floor_kbps)
			kbps = range_worth(kbps, par->floor_kbps);
		range_average(r, kbps);
		return;
	}
	if (r->avg_kbps > kbps)
		r->have = 0;
	r->avg_kbps = law_min(kbps, RANGE_KBPS_MAX);
}

/* A chirp's feedback is complete. */
LAW void range_result(struct nf_range *r, const struct range_params *par,
		      const struct knee_chirp *c, const struct knee_estimate *e, u32 now_kius)
{
	u32 max_kbps = chirp_max_kbps(c->min_kbps, c->spread, c->steps);

	if (e->verdict == KNEE_NONE)
		return;
	r->at_kius = now_kius;
	if (range_goes_on(r, par, e, max_kbps)) {
		range_go_on(r, par, c->steps, max_kbps);
	} else {
		range_take(r, par, c, e);
		range_follow(r, par);
	}
	r->bw_kbps = range_worth(r->avg_kbps, par->floor_kbps);
}

/* What the flow itself carried in a round trip without mark and loss was available (see 5.). A
 * search need not begin below that. */
INLINE_LAW void range_carried(struct nf_range *r, const struct range_params *par, u32 kbps)
{
	if (r->searching)
		r->min_kbps = range_within(par, law_max(r->min_kbps, kbps), r->steps);
	else if (r->avg_kbps < kbps)
		range_begin(r, par, kbps);
}

/* A mark on data or a loss, at this rate of the flow: no more is available. There is no
 * estimate until the next chirp, which then weighs more. */
LAW void range_congested(struct nf_range *r, u32 kbps)
{
	r->bw_kbps = 0;
	r->have = law_min(r->have, RANGE_MEMORY);
	if (!r->searching)
		r->avg_kbps = law_min(r->avg_kbps, kbps);
}

/* A loss below the target (see 6.). */
LAW void range_doubt(struct nf_range *r)
{
	if (r->doubt < RANGE_DOUBT_MOST)
		r->doubt++;
}

/* The window has reached the target of an estimate. */
LAW void range_reached(struct nf_range *r)
{
	if (r->doubt)
		r->doubt--;
}

/* us: time without a chirp after a loss */
LAW u64 range_doubt_us(const struct nf_range *r, u32 base_rtt_us)
{
	u32 doubt = law_min(r->doubt, RANGE_DOUBT_MOST);

	return doubt ? (u64)base_rtt_us << (RANGE_DOUBT_SHIFT + doubt) : 0;
}

/* us until the next chirp: uniform, with the base RTT as its mean; random: 32 bits */
LAW u32 range_pause_us(u32 base_rtt_us, u32 random)
{
	return (u64)law_min(base_rtt_us, LAW_S32_MAX) * 2 * random >> 32;
}

/* kbit/s: BW_est of eq. 7; 0: eq. 8 */
LAW u32 range_bw_kbps(const struct nf_range *r)
{
	return r->bw_kbps;
}

/* 1024 us since the last estimate */
LAW u32 range_age_kius(const struct nf_range *r, u32 now_kius)
{
	return now_kius - r->at_kius;
}

#endif
