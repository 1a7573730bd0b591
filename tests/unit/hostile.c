/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Feeds the laws what no honest peer sends, under the sanitizers, and checks
 * after every step what must hold whatever comes (test_hostile.py builds it).
 *
 *	hostile SEED STEPS
 */
#include <stdio.h>
#include <stdlib.h>

#include "law/delay.h"
#include "law/gentle_start.h"
#include "law/inference.h"
#include "law/layers.h"
#include "law/nf.h"
#include "law/proecn.h"
#include "law/small_window.h"

static u64 seed, step, random_state;

static u64 any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static u32 below(u32 n)
{
	return (any() >> 16) % n;
}

/* As likely 3 as 3 billion; often the ends of a range. */
static u32 any_u32(void)
{
	static const u32 ends[] = { 0, 1, 2, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff,
				    DELAY_MAX_US, DELAY_MAX_US - 1, DELAY_MAX_US + 1 };

	if (below(4) == 0)
		return ends[below(sizeof(ends) / sizeof(ends[0]))];
	return (u32)any() >> below(32);
}

/* A clock that goes on, stands still, jumps, or runs backwards. */
static u32 next_stamp(u32 stamp, u32 pace)
{
	switch (below(12)) {
	case 0:
		return any_u32();
	case 1:
		return stamp;
	case 2:
		return stamp - any_u32();
	case 3:
		return stamp + any_u32();
	default:
		return stamp + pace;
	}
}

#define HOLDS(condition)                                                                                   \
	do {                                                                                               \
		if (!(condition)) {                                                                        \
			fprintf(stderr, "seed %llu step %llu line %d: not (%s)\n", seed, step, __LINE__, \
				#condition);                                                               \
			exit(1);                                                                           \
		}                                                                                          \
	} while (0)

static bool in_use(u32 tick_ns)
{
	return tick_ns == 0 || tick_ns == 1000 || tick_ns == 976562 || tick_ns == 1000000 || tick_ns == 1953125 ||
	       tick_ns == 4000000 || tick_ns == 10000000;
}

static void check_delay(const struct delay *d, const struct delay_params *p, u32 queue_us, u32 rtt_us)
{
	u32 max = delay_queue_max(d);

	HOLDS(queue_us <= DELAY_MAX_US && queue_us <= rtt_us);
	HOLDS(max <= DELAY_MAX_US);
	HOLDS(d->queue.now >= 0 && d->queue.before >= 0);
	HOLDS(d->anchor_queue_us <= DELAY_MAX_US);
	HOLDS(d->smoothed_q8 == DELAY_NOT_SMOOTHED || d->smoothed_q8 <= max * DELAY_SMOOTHED_UNIT);
	HOLDS(delay_smoothed(d) <= max);
	HOLDS(delay_threshold(d, p) <= max);
	HOLDS(delay_floor(d, p) <= delay_threshold(d, p));
	HOLDS(!delay_indicates(d, p) || delay_smoothed(d) >= delay_threshold(d, p));
	HOLDS(in_use(d->tick_ns));
	HOLDS(aged_min(&d->owd) == AGED_NO_MIN ||
	      (aged_min(&d->owd) <= DELAY_OWD_LIMIT_US && aged_min(&d->owd) >= -DELAY_OWD_LIMIT_US));
}

static void delay_life(u32 acks)
{
	static const u32 our_ticks[] = { 1000, 1000000 };
	u32 our_tick_ns = our_ticks[below(2)], pace_us = 1 + (any_u32() >> 8);
	u32 peer_ticks[] = { 1000, 976562, 1000000, 1953125, 4000000, 10000000, 1 + (any_u32() >> 4) };
	u64 peer_tick_ns = peer_ticks[below(7)];
	struct delay_ack a = { .now_us = any() >> below(64), .tsval = any_u32(), .tsecr = any_u32() };
	struct delay_params p = { .delta = 1 + below(999),
				  .smoothing = 1 + below(64),
				  .memory_s = 1 + below(3600),
				  .floor_us = below(DELAY_MAX_US + 1) };
	u32 calm_rtt_us = 1 + (any_u32() >> below(20)), honest = below(4);
	struct delay d;

	delay_init(&d);
	while (acks--) {
		u32 queue_us;

		step++;
		if (honest && below(64)) {
			a.now_us += pace_us;
			a.tsval += pace_us * 1000ull / peer_tick_ns;
			a.tsecr += pace_us * 1000ull / our_tick_ns;
		} else {
			a.now_us = below(4) ? a.now_us + any_u32() : any() >> below(64);
			a.tsval = next_stamp(a.tsval, pace_us);
			a.tsecr = next_stamp(a.tsecr, pace_us);
		}
		a.rtt_us = honest && below(8) ? calm_rtt_us : any_u32();
		a.our_tick_ns = below(16) ? our_tick_ns : 0;
		a.lone = below(8) == 0;
		if (below(50) == 0)
			delay_restart(&d);
		queue_us = delay_sample(&d, &a, &p);
		check_delay(&d, &p, queue_us, a.rtt_us);
	}
}

static void other_laws(void)
{
	u32 w = any_u32(), mss = below(65536), spread = 1 + below(16), rtt_us = any_u32();
	u32 rtts = small_gap_rtts(w, mss, spread), gap_us = small_gap_us(rtts, rtt_us);
	u32 v = any_u32(), sample = any_u32(), mean = law_ewma(v, sample, 1 + below(64));
	struct inference m;
	struct gentle_start g;

	HOLDS(rtts >= 2 && rtts <= 2 * spread);
	HOLDS(gap_us >= 1 && gap_us <= SMALL_GAP_MAX_US);
	HOLDS(small_rate(mss, gap_us) >= 1);
	HOLDS(mean >= law_min(v, sample) && mean <= law_max(v, sample));

	inference_init(&m);
	gentle_start_init(&g);
	for (u32 i = below(64); i--; step++) {
		struct inference_ack a = { .now_us = any() >> below(64), .rtt_us = any_u32(), .snd_una = any_u32(),
					   .snd_nxt = any_u32(), .rtts = 1 + below(16) };
		bool was_active, was_muted, indicated = below(2);
		enum inference_verdict verdict;

		inference_unmute(&m, a.snd_una);
		inference_expire(&m, a.now_us);
		was_active = m.active;
		was_muted = m.muted;
		verdict = inference_step(&m, &a, indicated);
		HOLDS(!(verdict == INFERENCE_GROW && (was_active || indicated)));
		HOLDS(!(was_muted && verdict >= INFERENCE_HALVE));
		HOLDS(verdict < INFERENCE_HALVE || (m.active && m.muted));
		gentle_start_ack(&g, 1 + below(DELAY_MAX_US));
		gentle_start_counted(&g, any_u32());
		gentle_start_held(&g, any_u32(), any_u32(),
				  1 + below(DELAY_MAX_US), any_u32() & 1);
		gentle_start_limited(&g, below(DELAY_MAX_US));
	}
}

static void layers_life(void)
{
	u32 first = 1 + below(1000), beta = 10 + below(491), window = any_u32(), ref_us = 1000 + below(999001);
	struct layers l;

	layers_init(&l);
	for (u32 i = below(64); i--; step++) {
		u32 before = window, most, kept;

		if (!layers_at(&l, window, first))
			layers_place(&l, window, first);
		HOLDS(l.layer >= 1 && l.layer <= LAYERS_MAX && l.begin <= window);
		HOLDS(window < l.end || window == ~0u);
		if (below(4) == 0)
			l.kr_q12 = layers_kr_q12(any_u32(), ref_us);
		HOLDS(l.kr_q12 >= LAYERS_ONE && l.kr_q12 <= 21 * LAYERS_ONE);
		most = 2 * (layers_rate_q12(&l) >> LAYERS_Q) + 2;
		if (window < ~0u - most)
			window = layers_grow(&l, window, any_u32());
		HOLDS(window >= before && window - before <= most);
		kept = layers_reduced(window, first, beta);
		HOLDS(kept >= 2 && (kept <= window || window < 2));
		if (below(8) == 0)
			window = below(2) ? kept : any_u32();
	}
}

static void any_chirp(struct proecn_chirp *c, const struct proecn *p, u32 spread)
{
	bool own = below(2);

	*c = (struct proecn_chirp){ .min_kbps = own ? proecn_next_min_kbps(p) : any_u32(),
				    .spread = own ? spread : any_u32(),
				    .bytes = own ? 1500 : any_u32(),
				    .noise_us = below(2) ? 100 : any_u32(),
				    .sampled = below(2) ? 0xffff : any(),
				    .ece = any(),
				    .steps = own ? proecn_next_steps(p) : any(),
				    .burst = own ? 1 : any(),
				    .ecn = below(2),
				    .pair_us = any_u32(),
				    .pair_bytes = own ? 1500 : any_u32() };
	for (u32 i = 0; i < CHIRP_MOST; i++)
		c->delay_us[i] = own ? 10000 + below(1000) * i : any_u32();
}

/* What a liar's chirps tell, and what the window makes of it. */
static void nf_life(void)
{
	struct proecn_params par = { .spread = any_u32(), .steps = any_u32(), .alpha = any_u32(),
				     .floor_kbps = any_u32(), .ceiling_kbps = any_u32() };
	u32 window = any_u32(), credit = any_u32();
	struct proecn p;

	proecn_init(&p, &par);
	for (u32 i = below(32); i--; step++) {
		u32 max_kbps, before, acked = any_u32(), share_q8, target, left;
		struct proecn_estimate e;
		struct proecn_chirp c;

		any_chirp(&c, &p, par.spread);
		max_kbps = chirp_max_kbps(c.min_kbps, c.spread, c.steps);
		proecn_pair(&p, &c);
		proecn_estimate(&c, &e);
		HOLDS(e.kbps <= max_kbps && e.knee <= CHIRP_MOST && e.verdict <= PROECN_ABOVE);
		HOLDS(llabs((long long)e.raw_kbps) <= (long long)PROECN_FAR * max_kbps);
		proecn_result(&p, &par, &c, &e, any_u32());
		HOLDS(p.min_kbps >= 1 && p.min_kbps >= par.floor_kbps && p.have <= PROECN_GAIN);
		HOLDS(proecn_next_steps(&p) >= CHIRP_LEAST && proecn_next_steps(&p) <= CHIRP_MOST);
		HOLDS(proecn_bw_kbps(&p) <= LAW_S32_MAX);
		if (below(8) == 0) {
			u32 has_kbps = any_u32();

			proecn_congested(&p, has_kbps);
			HOLDS(!proecn_bw_kbps(&p) && p.have <= PROECN_MEMORY);
			HOLDS(p.searching || p.avg_kbps < 0 || (u32)p.avg_kbps <= has_kbps);
		}
		if (below(8) == 0) {
			proecn_carried(&p, &par, any_u32());
			HOLDS(p.min_kbps >= 1 && p.min_kbps >= par.floor_kbps && p.have <= PROECN_GAIN);
		}
		share_q8 = nf_share_q8(par.alpha, proecn_bw_kbps(&p), any_u32(), any_u32());
		target = nf_target(0, proecn_bw_kbps(&p), any_u32(), any_u32());
		HOLDS(share_q8 >= NF_SHARE_ONE && share_q8 <= NF_SHARE_MAX);
		before = law_clamp(window, 1, NF_WINDOW_MAX);
		window = nf_grow(&credit, window, acked, share_q8, target);
		HOLDS(window >= before && window - before <= acked && window <= law_max(target, before + 1));
		left = nf_cut(window, any_u32());
		HOLDS(left >= 1 && left <= window && (window <= NF_LEAST || left < window));
		if (below(4) == 0)
			window = below(2) ? left : any_u32();
	}
}

static void chirp_shapes(void)
{
	u32 rate = any_u32(), spread = any_u32(), n = any_u32(), bytes = any_u32(), i = below(CHIRP_MOST);
	u32 floor_kbps = any_u32(), burst = chirp_burst(rate, bytes, any_u32());

	HOLDS(burst >= 1 && burst <= CHIRP_BURST_MOST);
	HOLDS(chirp_gap_ns(rate, bytes) >= 1);
	HOLDS(chirp_min_kbps(rate, spread, n, floor_kbps) >= floor_kbps);
	HOLDS(chirp_rate_kbps(rate, spread, i) >= law_min(rate, 1) && chirp_max_kbps(rate, spread, n) >= law_min(rate, 1));
	HOLDS(!i || chirp_depart_ns(rate, spread, i, bytes) > chirp_depart_ns(rate, spread, i - 1, bytes));
	HOLDS(proecn_pile_steps(spread, any_u32(), any_u32()) <= CHIRP_MOST);
	HOLDS(proecn_pause_us(any_u32(), any_u32()) <= ~0u - 1);
	step++;
}

int main(int argc, char **argv)
{
	u64 steps;

	if (argc != 3)
		return 2;
	seed = strtoull(argv[1], NULL, 0);
	steps = strtoull(argv[2], NULL, 0);
	random_state = seed * 0x9e3779b97f4a7c15ull + 1;
	while (step < steps) {
		delay_life(1 + below(500));
		other_laws();
		layers_life();
		nf_life();
		chirp_shapes();
	}
	return 0;
}
