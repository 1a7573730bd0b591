/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The available bandwidth A, from what comes back of a chirp (NF-TCP paper, 3.2, eq. 5;
 * pathChirp: Ribeiro et al., PAM 2003). Up to A the packets of a chirp find the queue as
 * it was; above, each gap adds packet (1 - A / r_i) to it. A router that marks probes as
 * soon as a packet waits tells where that begins; the delay tells how much it becomes.
 *
 *	knee, by ECE	the first step of the run of marks that lasts to the chirp's end
 *	knee, by delay	where the rise begins that lasts to the chirp's end (pathChirp:
 *			an excursion is over when it falls below 1 / F of its height,
 *			F = 1.5); one that ended after L = 5 steps or more counts for the
 *			gaps it had; a rise within the noise is none
 *	by_ece		max over k < j of (j - k - pile) bits / (t_j - t_k), j: the knee
 *	by_knee		sum(E_k gap_k) / sum(gap_k), E_k: pathChirp's estimate of gap k
 *	direct		(bits - C rise) / time, over the last third of the gaps
 *
 *	probing:  search --- A below the chirp's end ---> dynamic (eq. 6)
 *		  2, 4, 8, 15 steps, each from
 *		  the last one's end
 *		  chirp without a trace of a queue: the average is at least its end
 *		  mark, loss: no BW_est until the next chirp
 *
 *  1. Pile-up. The first mark does not come with the first gap above A, as a packet must
 *     wait before: with two packets, 5 steps later at SF = 1.2 (proecn_pile_steps()).
 *     by_ece is exact for any rates: A fills the queue up to the mark if some k is its
 *     beginning, and the largest of these rates is it. pile is one packet: seen at
 *     steps, a queue of 1 ... 2 is on average met half a step late.
 *  2. C is not in the paper. ECE and knee of one chirp are good to a step (20 %) on an
 *     even load, and far off on a bursty one: 15 packets last less than what a bursty
 *     load needs to look like its mean, and a queue that is never empty marks everything.
 *     What is linear can be averaged. direct is, and free of bias once the queue is not
 *     empty, but it needs the capacity: the last step is followed by a packet back to
 *     back (a pair), which comes by bytes / C later, whatever else is on the path. Its
 *     time per byte is averaged (the first 8 equally, then 1/8, and of one that is longer
 *     no more than 9/8 of the average: others came in between). Only a pair behind a
 *     queue counts: an idle token bucket lets it through as fast as it came, and half of
 *     200 bytes of credit already read C a fifth too high. Without a pair, or when
 *     the noise is above what a whole step takes, the estimate is by_ece, by_knee, or
 *     half of their sum.
 *  3. The average: the first 16 estimates have equal parts, then each has 1/16. It is of
 *     signed estimates: one that says "less than nothing" must weigh, else the average of
 *     a busy path is too high. With 1/8 a quarter of the averages is 30 % off at 70 %
 *     of bursty load, with 1/16 it is 20 %. A median of three inherits the skew of single
 *     estimates, and waits as long. What changes a lot is followed faster: a chirp
 *     without a trace of a queue lifts the average to its end (or to C: a few packets
 *     above it leave less of a queue than is seen), and an estimate far below nothing
 *     weighs what it says. Where that chirp ends below the average (a small window has
 *     few steps) its end is all that is known, and the next estimate replaces it: in an
 *     average it would be no estimate but a bound, and too low. And no chirp that met a
 *     queue lifts a young average by more than a half: fifteen packets of a bursty load
 *     say anything, and where others have stopped for chirps of their own, all of C.
 *  4. Eq. 6 with r_avg = alpha BW_est ends at 2.1 BW_est: marks begin only above 2.5, and
 *     the direct estimate needs gaps that are above A. So r_avg is twice that: the chirp
 *     spans 0.4 ... 4.2 BW_est, and leaves 4 packets in the queue at its end.
 *  5. Eq. 5's "0 if below MinRate" holds at the floor only: elsewhere the range follows.
 *     And from 3/4 of the floor on it is not "below": at the floor itself an average is
 *     as often a little under it as above.
 *  6. What the flow carries without a mark is the best chirp of all. An average below that
 *     (of a busy time, or biased by bursts) would keep the range, and so what can be
 *     read, far below what is free. What meets a mark is the other end: no more was.
 *  7. On a path that is all free 4.2 BW_est is 4.2 C, and the gaps that direct looks at
 *     last 1.4 packets: a load of 50 % is no packet in most of them. Up to 5/2 C they
 *     last 2.1, and the queue at the end is 1.4 packets and not 4.
 *
 * Ranges: rates u32 kbit/s; the average s32, up to 2.1 Tbit/s; delays differ by up to
 * 2 s, what is above counts as that. Any feedback gives an estimate of 8 max at the most.
 */
#ifndef CCBPF_LAW_PROECN_H
#define CCBPF_LAW_PROECN_H

#include "law/chirp.h"

#define PROECN_EXCURSION 5 /* steps, pathChirp's L */
#define PROECN_FALL_NUM 3 /* pathChirp's F = 3 / 2 */
#define PROECN_FALL_DEN 2
#define PROECN_PILE 1 /* packets, see 1. */
#define PROECN_UPPER 3 /* direct: 1 / 3 of the gaps */
#define PROECN_DELAY_MAX_US (1u << 21)
#define PROECN_FAR 8 /* no estimate is further than this from max */
#define PROECN_GAIN 16 /* estimates in the average */
#define PROECN_MEMORY 1 /* ... that a mark or a loss leaves */
#define PROECN_LIFT 2 /* see 4. */
#define PROECN_PAIR_GAIN 8 /* pairs in the average */
#define PROECN_PAIR_RISE 8 /* a later one adds 1 / 8 at the most */
#define PROECN_PS_KBPS 8000000000ull /* ps per byte at 1 kbit/s */

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
	u32 pair_us; /* how much later the last packet came than one that was sent
			back to back before it (2.); 0: not known */
	u32 pair_bytes; /* that lie between the two's beginnings */
	u32 capacity_kbps; /* C, from proecn_pair(); 0: not known */
};

/* What the delays say of where it began. */
struct proecn_rise {
	u32 knee; /* the step before the last rise's first; steps: there is none */
	u32 held; /* bit k: gap k was of an excursion that ended, and rose */
	u32 highest_us;
};

struct proecn_estimate {
	u32 kbps; /* eq. 5 */
	s32 raw_kbps; /* what is averaged */
	u32 knee_kbps; /* by the knees, within max */
	u8 verdict; /* enum proecn_verdict */
	u8 signal; /* enum proecn_signal, bits */
	u8 knee; /* k of eq. 5: the first step that met the queue, from 0; else steps */
	u8 reserved;
	struct proecn_rise
		rise; /* here and not on the stack, of which the verifier
				  * would know everything */
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
	s32 avg_kbps; /* of the estimates */
	u32 bw_kbps; /* BW_est; 0: none (eq. 8) */
	u32 min_kbps; /* the next chirp begins with this */
	u32 pair_ps; /* average time of a byte at the bottleneck; 0: no pair yet */
	u32 at_kius; /* when the last estimate came */
	u8 steps; /* of the next chirp */
	u8 searching; /* probing slow start */
	u8 have; /* estimates in the average, up to PROECN_GAIN */
	u8 pairs; /* in pair_ps, up to PROECN_PAIR_GAIN */
};

/* Steps between the rate's passing A and a queue of so many packets in steps of burst:
 * the smallest m with burst sum(1 - SF^-k, k = 1 ... m) >= packets; CHIRP_MOST if none */
LAW u32 proecn_pile_steps(u32 spread_permille, u32 packets, u32 burst)
{
	u64 share = 1ull << CHIRP_SHARE_SHIFT, sum = 0;
	u32 m;

	spread_permille = chirp_spread(spread_permille);
	for (m = 1; m < CHIRP_MOST; m++) {
		share = share * 1000 / spread_permille;
		sum += (1ull << CHIRP_SHARE_SHIFT) - share;
		if (sum * burst >= (u64)packets << CHIRP_SHARE_SHIFT)
			break;
	}
	return m;
}

LAW bool proecn_has(u32 bits, u32 i)
{
	return bits >> i & 1;
}

/* Is three quarters of it back, with the last step? */
LAW bool proecn_complete(const struct proecn_chirp *c)
{
	u32 n = chirp_steps(c->steps), have = 0;

	for (u32 i = 0; i < CHIRP_MOST && i < n; i++)
		have += proecn_has(c->sampled, i);
	return have * 4 >= n * 3 && have >= CHIRP_LEAST &&
	       proecn_has(c->sampled, n - 1) && c->min_kbps && c->bytes;
}

/* us: the smallest delay of the chirp */
LAW u32 proecn_base_us(const struct proecn_chirp *c)
{
	u32 n = chirp_steps(c->steps), base_us = ~0u;

	for (u32 i = 0; i < CHIRP_MOST && i < n; i++)
		if (proecn_has(c->sampled, i))
			base_us = law_min(base_us, c->delay_us[i]);
	return base_us;
}

/* us above the base; without a sample: as the one before */
LAW u32 proecn_rise_us(const struct proecn_chirp *c, u32 i, u32 base_us,
		       u32 before_us)
{
	if (!proecn_has(c->sampled, i))
		return before_us;
	return law_forget(
		law_min(c->delay_us[i] - base_us, PROECN_DELAY_MAX_US));
}

/* The first step of the run of marks that lasts to the end; n: there is none. Marks
 * with unmarked steps behind them, at higher rates, were of other traffic. */
LAW u32 proecn_knee_ece(const struct proecn_chirp *c)
{
	u32 n = chirp_steps(c->steps), knee = n;

	if (!c->ecn)
		return n;
	for (u32 i = 0; i < CHIRP_MOST && i < n; i++) {
		if (!proecn_has(c->sampled, i))
			continue;
		if (!proecn_has(c->ece, i))
			knee = n;
		else if (knee == n)
			knee = law_forget(i);
	}
	return knee;
}

/* kbit/s: with this much available the queue is full of marks at step `knee` (1.) */
LAW u32 proecn_by_ece(const struct proecn_chirp *c, u32 knee)
{
	u64 at_ns = chirp_depart_ns(c->min_kbps, c->spread, knee, c->bytes);
	u64 from_ns = 0, best = 0,
	    rate_q8 = (u64)c->min_kbps << CHIRP_RATE_SHIFT;
	u32 burst = law_max(c->burst, 1);
	u64 packet = law_min(c->bytes, CHIRP_BYTES_MAX) / burst;

	for (u32 k = 0; k < CHIRP_MOST && k < knee; k++) {
		u64 bits = (u64)((knee - k) * burst - PROECN_PILE) * packet;

		if (at_ns > from_ns &&
		    bits * CHIRP_NS_BITS / (at_ns - from_ns) > best)
			best = bits * CHIRP_NS_BITS / (at_ns - from_ns);
		from_ns += chirp_gap_ns(rate_q8 >> CHIRP_RATE_SHIFT, c->bytes);
		rate_q8 = chirp_faster(rate_q8, chirp_spread(c->spread));
	}
	return best > ~0u ? ~0u : best;
}

LAW void proecn_knee_delay(const struct proecn_chirp *c, struct proecn_rise *r)
{
	u32 n = chirp_steps(c->steps), base_us = proecn_base_us(c);
	u32 from_us = 0, height_us = 0, rising = 0;
	u32 q_us = proecn_rise_us(c, 0, base_us, 0);

	r->knee = n;
	r->held = 0;
	r->highest_us = q_us;
	for (u32 j = 1; j < CHIRP_MOST && j < n; j++) {
		u32 before_us = q_us;

		q_us = proecn_rise_us(c, j, base_us, before_us);
		r->highest_us = law_forget(law_max(r->highest_us, q_us));
		if (r->knee == n) {
			if (q_us <= before_us)
				continue;
			r->knee = law_forget(j - 1);
			from_us = before_us;
			height_us = 0;
			rising = 0;
		}
		if (q_us > before_us)
			rising |= law_forget(1u << (j - 1));
		if (q_us > from_us && (q_us - from_us) * PROECN_FALL_NUM >=
					      height_us * PROECN_FALL_DEN) {
			height_us =
				law_forget(law_max(height_us, q_us - from_us));
			continue;
		}
		if (j - r->knee >= PROECN_EXCURSION)
			r->held |= rising;
		r->knee = n;
	}
	if (r->knee < n && height_us <= c->noise_us)
		r->knee = n;
}

/* kbit/s: pathChirp's average over the gaps */
LAW u32 proecn_by_knee(const struct proecn_chirp *c,
		       const struct proecn_rise *r)
{
	u32 n = chirp_steps(c->steps), spread = chirp_spread(c->spread);
	u64 rate_q8 = (u64)c->min_kbps << CHIRP_RATE_SHIFT;
	u64 share = 1ull << CHIRP_SHARE_SHIFT, all = 0, sum = 0;
	u32 last_kbps =
		chirp_rate_kbps(c->min_kbps, spread, law_min(r->knee, n - 2));

	for (u32 k = 0; k < CHIRP_MOST - 1 && k < n - 1; k++) {
		u32 kbps = last_kbps;

		if (k < r->knee && proecn_has(r->held, k))
			kbps = rate_q8 >> CHIRP_RATE_SHIFT;
		sum += kbps * share;
		all += share;
		rate_q8 = chirp_faster(rate_q8, spread);
		share = share * 1000 / spread;
	}
	return sum / all;
}

/* kbit/s, signed and bounded */
LAW s32 proecn_bounded(u64 kbps, bool negative, u32 max_kbps)
{
	u64 far = law_forget((u64)max_kbps * PROECN_FAR);

	if (far > LAW_S32_MAX)
		far = LAW_S32_MAX;
	if (kbps > far)
		kbps = far;
	return negative ? -(s32)kbps : (s32)kbps;
}

/* kbit/s: what the last third of the gaps brought, less what stayed in the queue */
LAW s32 proecn_direct(const struct proecn_chirp *c, u32 max_kbps)
{
	u32 last = law_forget(chirp_steps(c->steps) - 1);
	u32 from = last - law_max(last / PROECN_UPPER, 1);
	u64 time_ns, sent, stayed;
	u32 rise_us, last_us, from_us;
	bool fell;

	/* downwards: the first third of the steps may be incomplete, never all */
	for (u32 i = 0; i < CHIRP_MOST && from && !proecn_has(c->sampled, from);
	     i++)
		from = law_forget(from - 1);
	if (!proecn_has(c->sampled, from & 15))
		return proecn_bounded(max_kbps, false, max_kbps);
	time_ns = chirp_depart_ns(c->min_kbps, c->spread, last, c->bytes) -
		  chirp_depart_ns(c->min_kbps, c->spread, from, c->bytes);
	last_us = c->delay_us[law_index(last, CHIRP_MOST)];
	from_us = c->delay_us[law_index(from, CHIRP_MOST)];
	fell = last_us < from_us;
	rise_us = fell ? from_us - last_us : last_us - from_us;
	stayed = (u64)c->capacity_kbps * law_min(rise_us, PROECN_DELAY_MAX_US) *
		 1000;
	sent = (u64)(last - from) * law_min(c->bytes, CHIRP_BYTES_MAX) *
	       CHIRP_NS_BITS;
	if (!time_ns)
		time_ns = 1;
	stayed = law_forget(stayed);
	if (fell)
		return proecn_bounded(sent / time_ns + stayed / time_ns, false,
				      max_kbps);
	return sent >= stayed ? proecn_bounded((sent - stayed) / time_ns, false,
					       max_kbps)
			      : proecn_bounded((stayed - sent) / time_ns, true,
					       max_kbps);
}

/* us that a step takes at the bottleneck; 0: not known */
LAW u32 proecn_step_us(const struct proecn_chirp *c)
{
	return c->capacity_kbps
		       ? chirp_gap_ns(c->capacity_kbps, c->bytes) / 1000
		       : 0;
}

/* kbit/s of one chirp by its two knees, where there is no direct one */
LAW u32 proecn_by_knees(const struct proecn_chirp *c,
			const struct proecn_estimate *e)
{
	u32 delay_kbps = law_forget(proecn_by_knee(c, &e->rise)), ece_kbps;

	if (!(e->signal & PROECN_BY_ECE))
		return delay_kbps;
	ece_kbps = law_forget(proecn_by_ece(c, proecn_knee_ece(c)));
	if (!(e->signal & PROECN_BY_DELAY))
		return ece_kbps;
	return ((u64)delay_kbps + ece_kbps) / 2;
}

/* Where ECE and delay see it begin; true: there is a trace of a queue. */
LAW bool proecn_knees(const struct proecn_chirp *c, struct proecn_estimate *e)
{
	u32 n = law_forget(chirp_steps(c->steps));
	u32 knee_ece = law_forget(proecn_knee_ece(c));

	proecn_knee_delay(c, &e->rise);
	if (knee_ece < n)
		e->signal |= PROECN_BY_ECE;
	if (e->rise.knee < n)
		e->signal |= PROECN_BY_DELAY;
	e->knee = law_min(knee_ece, e->rise.knee);
	return knee_ece < n || (e->rise.highest_us > c->noise_us &&
				e->rise.highest_us > proecn_step_us(c) / 2);
}

/* kbit/s: A is never above C, and C not known better than to 1 / 8 at first */
LAW s32 proecn_possible(const struct proecn_chirp *c, s32 kbps)
{
	u64 most = c->capacity_kbps + c->capacity_kbps / 8ull;

	return kbps > 0 && (u32)kbps > most ? (s32)most : kbps;
}

/* kbit/s of a chirp that met a queue */
LAW s32 proecn_raw_kbps(const struct proecn_chirp *c,
			const struct proecn_estimate *e, u32 max_kbps)
{
	if (c->capacity_kbps && proecn_step_us(c) > c->noise_us)
		return proecn_possible(
			c, (s32)law_forget((u32)proecn_direct(c, max_kbps)));
	return proecn_bounded(e->knee_kbps, false, max_kbps);
}

LAW void proecn_estimate(const struct proecn_chirp *c,
			 struct proecn_estimate *e)
{
	u32 max_kbps =
		law_forget(chirp_max_kbps(c->min_kbps, c->spread, c->steps));

	e->kbps = 0;
	e->raw_kbps = 0;
	e->knee_kbps = 0;
	e->verdict = PROECN_NONE;
	e->signal = 0;
	e->knee = chirp_steps(c->steps);
	e->reserved = 0;
	if (!proecn_complete(c))
		return;
	if (!proecn_knees(c, e)) {
		e->verdict = PROECN_ABOVE;
		e->signal = 0;
		e->knee = chirp_steps(c->steps);
		e->kbps = max_kbps;
		e->knee_kbps = max_kbps;
		e->raw_kbps = proecn_bounded(max_kbps, false, max_kbps);
		return;
	}
	e->knee_kbps = law_forget(
		law_min(law_forget(proecn_by_knees(c, e)), max_kbps));
	e->raw_kbps = (s32)law_forget((u32)proecn_raw_kbps(c, e, max_kbps));
	if (e->raw_kbps < 0 || (u32)e->raw_kbps < c->min_kbps) {
		e->verdict = PROECN_BELOW;
	} else if ((u32)e->raw_kbps > max_kbps) {
		e->verdict = PROECN_ABOVE;
		e->kbps = max_kbps;
	} else {
		e->verdict = PROECN_WITHIN;
		e->kbps = e->raw_kbps;
	}
}

/* At first: probing slow start, 2 steps at the floor. */
LAW void proecn_init(struct proecn *p, const struct proecn_params *par)
{
	p->avg_kbps = 0;
	p->bw_kbps = 0;
	p->min_kbps = law_max(par->floor_kbps, 1);
	p->pair_ps = 0;
	p->at_kius = 0;
	p->steps = CHIRP_LEAST;
	p->searching = 1;
	p->have = 0;
	p->pairs = 0;
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

/* kbit/s: C by the pairs; 0: not known */
LAW u32 proecn_capacity_kbps(const struct proecn *p)
{
	u64 kbps = p->pair_ps ? PROECN_PS_KBPS / p->pair_ps : 0;

	return kbps > ~0u ? ~0u : kbps;
}

/* Did the last step meet a queue? */
LAW bool proecn_queued(const struct proecn_chirp *c)
{
	u32 last = law_index(chirp_steps(c->steps) - 1, CHIRP_MOST);

	return proecn_has(c->sampled, last) &&
	       proecn_rise_us(c, last, proecn_base_us(c), 0) > c->noise_us;
}

/* The chirp's pair into the average, and the average into the chirp; before
 * proecn_estimate(). */
LAW void proecn_pair(struct proecn *p, struct proecn_chirp *c)
{
	if (c->pair_us && c->pair_bytes && proecn_queued(c)) {
		u64 ps = law_min(c->pair_us, PROECN_DELAY_MAX_US) * 1000000ull /
			 c->pair_bytes;
		u32 sample = law_clamp(ps > ~0u ? ~0u : ps, 1, ~0u);
		u64 most = p->pair_ps + p->pair_ps / PROECN_PAIR_RISE + 1ull;

		if (p->pairs < PROECN_PAIR_GAIN)
			p->pairs++;
		else if (sample > most)
			sample = most;
		p->pair_ps = law_ewma(p->pair_ps, sample, law_max(p->pairs, 1));
	}
	c->capacity_kbps = proecn_capacity_kbps(p);
}

/* kbit/s: nothing faster is probed, but for what the floor needs; nor than 5/2 of C,
 * where it is known (7.) */
LAW u32 proecn_ceiling_kbps(const struct proecn *p,
			    const struct proecn_params *par)
{
	u64 most = proecn_capacity_kbps(p) * 5ull / 2;

	return most && most < par->ceiling_kbps ? most : par->ceiling_kbps;
}

/* kbit/s: the first gap's, for an average rate; not below the floor, and within the
 * ceiling where that allows it */
LAW u32 proecn_range(const struct proecn_params *par, u32 ceiling_kbps,
		     u32 min_kbps, u32 steps)
{
	u32 max_kbps;

	min_kbps = law_max(law_min(min_kbps, ceiling_kbps),
			   law_max(par->floor_kbps, 1));
	max_kbps = chirp_max_kbps(min_kbps, par->spread, steps);
	if (max_kbps > ceiling_kbps)
		min_kbps = (u64)min_kbps * ceiling_kbps / max_kbps;
	return law_max(law_max(min_kbps, par->floor_kbps), 1);
}

/* Eq. 6 (see 4.) */
LAW void proecn_follow(struct proecn *p, const struct proecn_params *par)
{
	u32 avg_kbps = p->avg_kbps > 0 ? p->avg_kbps : 0;
	u64 r_avg =
		(u64)avg_kbps * law_min(par->alpha, 1000) * PROECN_LIFT / 1000;

	p->steps = chirp_steps(par->steps);
	p->min_kbps = proecn_range(par, proecn_ceiling_kbps(p, par),
				   chirp_min_kbps(r_avg > ~0u ? ~0u : r_avg,
						  par->spread, p->steps,
						  par->floor_kbps),
				   p->steps);
}

/* sum / n of signed numbers, without signed division */
LAW s64 proecn_part(s64 v, u32 n)
{
	return v < 0 ? -(s64)((u64)-v / n) : (s64)((u64)v / n);
}

LAW void proecn_average(struct proecn *p, const struct proecn_params *par,
			s32 raw_kbps)
{
	s32 least = -(s32)law_min(2 * law_min(par->floor_kbps, 1u << 30),
				  LAW_S32_MAX);
	u32 base_kbps = law_max(p->avg_kbps > 0 ? p->avg_kbps : 0, p->min_kbps);
	s64 step;

	if (p->have < PROECN_GAIN)
		p->have++;
	step = proecn_part((s64)raw_kbps - p->avg_kbps, p->have);
	if (p->have > 1 && step > base_kbps / 2)
		step = base_kbps / 2;
	p->avg_kbps = p->avg_kbps + step;
	if (p->avg_kbps < least)
		p->avg_kbps = least;
}

/* Does the search go on from the end of this chirp? Where nothing stays in a queue,
 * direct reads 3/4 of max: what the last third of the gaps has on average. */
LAW bool proecn_goes_on(const struct proecn *p, const struct proecn_params *par,
			const struct proecn_estimate *e, u32 max_kbps)
{
	return p->searching && max_kbps < par->ceiling_kbps &&
	       e->raw_kbps >= 0 && (u32)e->raw_kbps >= max_kbps / 2;
}

LAW void proecn_go_on(struct proecn *p, const struct proecn_params *par,
		      u32 steps, u32 max_kbps)
{
	p->avg_kbps = law_min(max_kbps, LAW_S32_MAX);
	p->have = 0;
	p->steps = law_min(chirp_steps(steps) * 2, chirp_steps(par->steps));
	p->min_kbps = proecn_range(par, par->ceiling_kbps, max_kbps, p->steps);
}

/* What one chirp does to the average. The search's last one begins where the one before
 * it ended, maybe far above A, from where direct multiplies the error of a C that is
 * young: the knees say where to look. */
LAW void proecn_take(struct proecn *p, const struct proecn_params *par,
		     const struct proecn_chirp *c,
		     const struct proecn_estimate *e)
{
	bool traceless = e->verdict == PROECN_ABOVE && !e->signal;
	s32 kbps = e->raw_kbps;

	if (traceless && c->capacity_kbps && kbps > 0 &&
	    (u32)kbps > c->capacity_kbps)
		kbps = c->capacity_kbps;
	if (p->searching && e->verdict == PROECN_BELOW) {
		p->avg_kbps = law_min(e->knee_kbps, LAW_S32_MAX);
		p->have = 1;
	} else if (traceless) {
		if (p->avg_kbps > e->raw_kbps)
			p->have = 0;
		p->avg_kbps = kbps;
	} else {
		proecn_average(p, par, kbps);
	}
	p->searching = 0;
}

/* kbit/s: eq. 5's 0 for what is under the floor, with room for noise (5.) */
LAW u32 proecn_worth(s32 avg_kbps, u32 floor_kbps)
{
	if (avg_kbps <= 0 || avg_kbps * 4ull < floor_kbps * 3ull)
		return 0;
	return avg_kbps;
}

/* A chirp's feedback is complete. */
LAW void proecn_result(struct proecn *p, const struct proecn_params *par,
		       const struct proecn_chirp *c,
		       const struct proecn_estimate *e, u32 now_kius)
{
	u32 max_kbps = chirp_max_kbps(c->min_kbps, c->spread, c->steps);

	if (e->verdict == PROECN_NONE)
		return;
	p->at_kius = now_kius;
	if (proecn_goes_on(p, par, e, max_kbps)) {
		proecn_go_on(p, par, c->steps, max_kbps);
	} else {
		proecn_take(p, par, c, e);
		proecn_follow(p, par);
	}
	p->bw_kbps = proecn_worth(p->avg_kbps, par->floor_kbps);
}

/* What the flow itself carried, in a round trip without mark and loss, was free: an
 * average below it is refuted, and a search need not begin below it (6.). */
LAW void proecn_carried(struct proecn *p, const struct proecn_params *par,
			u32 kbps)
{
	if (p->searching) {
		p->min_kbps = proecn_range(par, par->ceiling_kbps,
					   law_max(p->min_kbps, kbps),
					   p->steps);
	} else if (p->avg_kbps < 0 || (u32)p->avg_kbps < kbps) {
		p->avg_kbps = law_min(kbps, LAW_S32_MAX);
		p->have = PROECN_MEMORY;
		proecn_follow(p, par);
	}
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

/* A mark on data, a loss, when the flow had so much: that is the most there is (6.). No
 * estimate until a new chirp, which then weighs more. No chirp while marks arrive. */
LAW void proecn_congested(struct proecn *p, u32 kbps)
{
	p->bw_kbps = 0;
	p->have = law_min(p->have, PROECN_MEMORY);
	if (!p->searching && p->avg_kbps > 0 && (u32)p->avg_kbps > kbps)
		p->avg_kbps = kbps;
}

#endif
