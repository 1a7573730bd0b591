/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Feeds the laws what no honest peer sends, under the sanitizers, and checks
 * after every step what must hold whatever comes (test_hostile.py builds it).
 *
 *	hostile SEED STEPS
 */
#include <stdio.h>
#include <stdlib.h>

#include "law/backlog.h"
#include "law/chance.h"
#include "law/delay.h"
#include "law/flat.h"
#include "law/gentle_start.h"
#include "law/inference.h"
#include "law/layers.h"
#include "law/nf.h"
#include "law/falls.h"
#include "law/range.h"
#include "law/silence.h"
#include "law/small_window.h"
#include "law/spacing.h"
#include "law/westwood.h"

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
	static const u32 ends[] = {
		0,	    1,		2,	    0x7ffffffe,	  0x7fffffff,	    0x80000000,
		0x80000001, 0xfffffffe, 0xffffffff, DELAY_MAX_US, DELAY_MAX_US - 1, DELAY_MAX_US + 1
	};

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

#define HOLDS(condition)                                                                       \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "seed %llu step %llu line %d: not (%s)\n", seed, step, \
				__LINE__, #condition);                                         \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

static bool in_use(u32 tick_ns)
{
	return tick_ns == 0 || tick_ns == 1000 || tick_ns == 976562 || tick_ns == 1000000 ||
	       tick_ns == 1953125 || tick_ns == 4000000 || tick_ns == 10000000;
}

static void check_delay(const struct delay *d, const struct delay_params *p, u32 queue_us,
			u32 rtt_us)
{
	u32 max = delay_queue_max(d), base_us = delay_base_us(d);

	HOLDS(queue_us <= DELAY_MAX_US && queue_us <= rtt_us);
	HOLDS(max <= DELAY_MAX_US && base_us <= DELAY_MAX_US);
	HOLDS(d->rise_us <= base_us);
	HOLDS(d->anchor_queue_us <= DELAY_MAX_US);
	HOLDS(d->smoothed_q8 == DELAY_NOT_SMOOTHED ||
	      d->smoothed_q8 <= DELAY_MAX_US * DELAY_SMOOTHED_UNIT);
	HOLDS(!delay_known(d) || delay_threshold(d, p) <= max);
	HOLDS(delay_known(d) || delay_threshold(d, p) >= DELAY_PROVISIONAL_MIN_US);
	HOLDS(delay_threshold(d, p) <= DELAY_MAX_US);
	HOLDS(delay_floor(d, p) <= delay_threshold(d, p));
	HOLDS(!delay_indicates(d, p) || delay_smoothed(d) >= delay_threshold(d, p));
	HOLDS(!d->overflowed || max);
	HOLDS(in_use(d->tick_ns));
	HOLDS(aged_min(&d->owd) == AGED_NO_MIN || (aged_min(&d->owd) <= DELAY_OWD_LIMIT_US &&
						   aged_min(&d->owd) >= -DELAY_OWD_LIMIT_US));
}

/* What rounds and the time between ACKs tell, of any delays. */
struct path {
	struct noise noise, falls;
	struct spacing spacing;
	struct silence silence;
	u32 flat, flat_us;
};

static void path_init(struct path *p)
{
	noise_init(&p->noise, any_u32());
	falls_init(&p->falls, any_u32());
	spacing_init(&p->spacing, any_u32());
	silence_init(&p->silence);
	p->flat = p->flat_us = 0;
}

static void path_ack(struct path *p, u32 now_us, u32 queue_us, u32 before_us)
{
	u32 since_us = spacing_heard(&p->spacing, now_us, below(4) ? below(64) : any_u32()), low_us;

	HOLDS(spacing_own_us(&p->spacing, before_us) <= law_min(before_us / 8, SPACING_MOST_US));
	if (silence_was(since_us, p->spacing.packet_us)) {
		HOLDS(silence_delays(since_us, p->spacing.packet_us));
		silence_take(&p->silence, since_us, queue_us, before_us, below(2));
	}
	HOLDS(silence_stood_us(&p->silence) <= SILENCE_MOST << SILENCE_SHIFT);
	noise_put(&p->noise, queue_us);
	falls_put(&p->falls, queue_us);
	if (!noise_turn(&p->noise, any_u32(), any_u32()))
		return;
	silence_turn(&p->silence);
	low_us = noise_learn(&p->noise);
	falls_learn(&p->falls);
	HOLDS(noise_us(&p->falls) <= NOISE_MOST << NOISE_SHIFT &&
	      falls_rounds(&p->falls) <= FALLS_FIRST);
	HOLDS(noise_us(&p->noise) <= NOISE_MOST << NOISE_SHIFT && p->noise.samples == 0);
	HOLDS(low_us == NOISE_UNKNOWN || low_us <= NOISE_MOST << NOISE_SPREAD_SHIFT);
	p->flat =
		flat_rounds(p->flat, low_us, p->flat_us, noise_us(&p->noise), p->spacing.packet_us);
	HOLDS(p->flat <= FLAT_COUNT_MAX);
	if (!p->flat)
		p->flat_us = low_us;
}

/* Between two ACKs: idle, a loss, or what stood still is the path. */
static void delay_moment(struct delay *d, const struct delay_ack *a, const struct delay_params *p,
			 u32 before_us)
{
	u32 queue_us = below(2) ? any_u32() >> 9 : delay_at_loss(d, a, before_us, any_u32() >> 12);

	HOLDS(queue_us <= DELAY_MAX_US);
	switch (below(4)) {
	case 0:
		delay_restart(d);
		break;
	case 1:
		HOLDS(delay_rebase(d, 1 + any_u32() / 2) <= DELAY_MAX_US);
		break;
	default:
		delay_lost(d, queue_us, below(2), p);
	}
}

static void delay_life(u32 acks)
{
	u32 pace_us = 1 + (any_u32() >> 8), queue_us = 0;
	u32 peer_ticks[] = {
		1000, 976562, 1000000, 1953125, 4000000, 10000000, 1 + (any_u32() >> 4)
	};
	u64 peer_tick_ns = peer_ticks[below(7)];
	struct delay_ack a = { .now_us = any() >> below(64), .tsval = any_u32() };
	struct delay_params p = { .delta = 1 + below(999),
				  .smoothing = 1 + below(64),
				  .memory_s = 1 + below(3600),
				  .floor_us = below(DELAY_MAX_US + 1),
				  .least = 1 + below(DELAY_FIRST) };
	u32 calm_rtt_us = 1 + (any_u32() >> below(20)), honest = below(4);
	struct path path;
	struct delay d;

	delay_init(&d);
	path_init(&path);
	while (acks--) {
		u32 before_us = queue_us;

		step++;
		if (honest && below(64)) {
			a.now_us += pace_us;
			a.tsval += pace_us * 1000ull / peer_tick_ns;
		} else {
			a.now_us = below(4) ? a.now_us + any_u32() : any() >> below(64);
			a.tsval = next_stamp(a.tsval, pace_us);
		}
		a.rtt_us = (honest && below(8) ? calm_rtt_us : any_u32()) ?: 1;
		a.stamped = below(16);
		a.own_us = below(4) ? 0 : spacing_own_us(&path.spacing, delay_base_us(&d));
		p.noise_us = noise_us(&path.noise);
		if (below(50) == 0)
			delay_moment(&d, &a, &p, before_us);
		queue_us = delay_measure(&d, &a, &p);
		path_ack(&path, a.now_us, queue_us, before_us);
		delay_take(&d, queue_us, silence_stood_us(&path.silence), below(8) == 0, &p);
		check_delay(&d, &p, queue_us, a.rtt_us);
	}
}

static void check_backlog(const struct backlog *b, const struct backlog_params *p, u32 window)
{
	u32 delay_us = backlog_delay(b, b->rtt_us), most = law_max(p->most, p->least);

	HOLDS(backlog_base(b) <= BACKLOG_RTT_MAX_US && b->rtt_us <= BACKLOG_RTT_MAX_US);
	HOLDS(b->loss_us <= BACKLOG_RTT_MAX_US && b->most_us <= BACKLOG_RTT_MAX_US);
	HOLDS(b->low_us <= b->high_us && b->least_us <= b->most_us);
	HOLDS(backlog_threshold(b, p) >= p->least && backlog_threshold(b, p) <= most);
	HOLDS(backlog_queueing(b, p) <= delay_us);
	HOLDS(!backlog_exceeds(b, window, p) || delay_us > backlog_noise(b, p));
	HOLDS(backlog_visible(b, b->rtt_us, window, p) <= backlog_queue(b, window));
	HOLDS(backlog_pipe(b, window, p) <= window);
	HOLDS(backlog_limit_us(b, window, p) >= backlog_noise(b, p));
}

static void backlog_loses(struct backlog *b, const struct backlog_params *p, struct chance *c,
			  struct westwood *w, u64 now_us, u32 rtt_us, u32 window, u32 most)
{
	bool chance = chance_lost(c, any_u32(), window, most);
	u32 kept;

	HOLDS(!chance || (window >= CHANCE_WINDOW && !chance_slow(c)));
	HOLDS(c->low <= CHANCE_INTERVAL_MOST && c->high <= CHANCE_INTERVAL_MOST);
	HOLDS(c->wait <= CHANCE_WAIT_MOST && c->next <= CHANCE_WAIT_MOST &&
	      c->tried <= CHANCE_LONG);
	westwood_turn(w, any_u32(), now_us);
	kept = westwood_ssthresh(window, backlog_pipe(b, window, p),
				 westwood_delivered(w, backlog_base(b)), chance);
	HOLDS(kept >= WESTWOOD_LEAST && (kept <= window || window < WESTWOOD_LEAST));
	backlog_overflows(b, rtt_us, window, p);
	backlog_lost(b, rtt_us, chance, p);
}

static void backlog_life(u32 acks)
{
	struct backlog_params p = { .most = 1 + below(64000),
				    .least = below(3001),
				    .averaging = 1 + below(64),
				    .memory_s = 1 + below(3600),
				    .floor_us = below(100001) };
	u64 now_us = any() >> below(64);
	u32 window = any_u32(), most = below(256), queue_us = 0;
	struct westwood w;
	struct chance c;
	struct path path;
	struct backlog b;

	backlog_init(&b);
	path_init(&path);
	chance_init(&c, any_u32());
	westwood_restart(&w, any_u32(), now_us);
	while (acks--) {
		u32 rtt_us = any_u32(), before_us = queue_us;

		step++;
		now_us += any_u32() >> below(32);
		p.noise_us = noise_us(&path.noise);
		p.own_us = spacing_own_us(&path.spacing, backlog_base(&b));
		backlog_unmute(&b, any_u32());
		if (backlog_sample(&b, now_us, rtt_us, window, below(4) == 0, below(8) == 0, &p))
			queue_us = backlog_delay(&b, rtt_us);
		path_ack(&path, now_us, queue_us, before_us);
		check_backlog(&b, &p, window);
		switch (below(8)) {
		case 0:
			chance_seen(&c, backlog_visible(&b, b.rtt_us, window, &p),
				    spacing_packets(&path.spacing, backlog_queueing(&b, &p)));
			backlog_reduced(&b, any_u32(), &p);
			break;
		case 1:
			backlog_loses(&b, &p, &c, &w, now_us, rtt_us, window, most);
			break;
		case 2:
			if (below(8) == 0)
				backlog_rebase(&b, 1 + any_u32() / 2, &p);
			break;
		case 3:
			if (below(8) == 0)
				backlog_restart(&b);
			break;
		default:
			window = below(16) ? window : any_u32();
		}
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
		struct inference_ack a = { .now_us = any_u32(),
					   .rtt_us = any_u32(),
					   .snd_una = any_u32(),
					   .snd_nxt = any_u32(),
					   .rtts = 1 + below(16) };
		bool was_active, was_muted, indicated = below(2);
		enum inference_verdict verdict;

		inference_idle(&m, any_u32());
		inference_unmute(&m, a.snd_una);
		HOLDS(inference_left_us(&m, a.now_us) < INFERENCE_MOST_US);
		if (below(8) == 0)
			inference_forgive(&m, a.snd_nxt, a.rtt_us);
		inference_expire(&m, a.now_us);
		was_active = m.active;
		was_muted = m.muted;
		verdict = inference_step(&m, &a, indicated);
		HOLDS(!(verdict == INFERENCE_GROW && (was_active || indicated)));
		HOLDS(!(was_muted && verdict >= INFERENCE_HALVE));
		HOLDS(verdict < INFERENCE_HALVE || (m.active && m.muted));
		gentle_start_ack(&g, 1 + below(DELAY_MAX_US));
		gentle_start_counted(&g, any_u32());
		gentle_start_held(&g, any_u32(), any_u32(), 1 + below(DELAY_MAX_US), any_u32() & 1);
		gentle_start_limited(&g, below(DELAY_MAX_US));
	}
}

static void layers_life(void)
{
	u32 first = 1 + below(1000), beta = 10 + below(491), window = any_u32(),
	    ref_us = 1000 + below(999001);
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

static void any_chirp(struct knee_chirp *c, const struct nf_range *r, u32 spread)
{
	bool own = below(2);

	*c = (struct knee_chirp){ .min_kbps = own ? range_next_min_kbps(r) : any_u32(),
				  .spread = own ? spread : any_u32(),
				  .bytes = own ? 1500 : any_u32(),
				  .noise_us = below(2) ? 100 : any_u32(),
				  .sampled = below(2) ? 0xffff : any(),
				  .ece = any(),
				  .steps = own ? range_next_steps(r) : any(),
				  .burst = own ? 1 : any(),
				  .ecn = below(2) };
	for (u32 i = 0; i < CHIRP_MOST; i++)
		c->delay_us[i] = own ? 10000 + below(1000) * i : any_u32();
}

static void check_range(const struct nf_range *r, const struct range_params *par)
{
	HOLDS(r->min_kbps >= 1 && r->min_kbps >= par->floor_kbps && r->have <= RANGE_GAIN);
	HOLDS(range_next_steps(r) >= CHIRP_LEAST && range_next_steps(r) <= CHIRP_MOST);
	HOLDS(range_bw_kbps(r) <= RANGE_KBPS_MAX && r->avg_kbps <= RANGE_KBPS_MAX);
	HOLDS(r->doubt <= RANGE_DOUBT_MOST);
}

/* Marks, losses, targets that are reached and some that are not. */
static void any_turn(struct nf_range *r, const struct range_params *par)
{
	u32 has_kbps = any_u32();

	switch (below(32)) {
	case 0 ... 3:
		range_congested(r, has_kbps);
		HOLDS(!range_bw_kbps(r) && r->have <= RANGE_MEMORY);
		HOLDS(r->searching || r->avg_kbps <= has_kbps);
		break;
	case 4 ... 7:
		range_carried(r, par, has_kbps);
		break;
	case 8:
		range_begin(r, par, has_kbps);
		break;
	case 9 ... 12:
		range_doubt(r);
		break;
	case 13:
		range_reached(r);
		break;
	}
	HOLDS(range_doubt_us(r, any_u32()) <= (u64)~0u << 11);
}

/* What a liar's chirps tell, and what the window makes of it. */
static void nf_life(void)
{
	struct range_params par = { .spread = any_u32(),
				    .steps = any_u32(),
				    .alpha = any_u32(),
				    .floor_kbps = any_u32(),
				    .ceiling_kbps = any_u32() };
	u32 window = any_u32(), credit = any_u32();
	struct nf_range r;

	range_init(&r, &par);
	for (u32 i = below(32); i--; step++) {
		u32 max_kbps, before, acked = any_u32(), share_q8, target, left;
		struct knee_estimate e;
		struct knee_chirp c;

		any_chirp(&c, &r, par.spread);
		max_kbps = chirp_max_kbps(c.min_kbps, c.spread, c.steps);
		knee_estimate(&c, &e);
		HOLDS(e.kbps <= e.raw_kbps && e.raw_kbps <= max_kbps);
		HOLDS(e.knee <= CHIRP_MOST && e.verdict <= KNEE_ABOVE);
		range_result(&r, &par, &c, &e, any_u32());
		check_range(&r, &par);
		any_turn(&r, &par);
		check_range(&r, &par);
		share_q8 = nf_share_q8(par.alpha, range_bw_kbps(&r), any_u32(), any_u32());
		target = nf_target(range_bw_kbps(&r), any_u32(), any_u32());
		HOLDS(share_q8 >= NF_SHARE_ONE && share_q8 <= NF_SHARE_MAX);
		before = law_clamp(window, 1, NF_WINDOW_MAX);
		window = nf_grow(&credit, window, acked, share_q8, target);
		HOLDS(window >= before && window - before <= acked &&
		      window <= law_max(target, before + 1));
		left = nf_cut(window, nf_decrease(any_u32(), any_u32(), any_u32()));
		HOLDS(left >= 1 && left <= window && (window <= NF_LEAST || left < window));
		HOLDS(nf_back(window, any_u32()) <= window && nf_half(window) >= NF_LEAST);
		if (below(4) == 0)
			window = below(2) ? left : any_u32();
	}
}

static void chirp_shapes(void)
{
	u32 rate = any_u32(), spread = any_u32(), n = any_u32(), bytes = any_u32(),
	    i = below(CHIRP_MOST);
	u32 floor_kbps = any_u32(), burst = chirp_burst(rate, bytes, any_u32());

	HOLDS(burst >= 1 && burst <= CHIRP_BURST_MOST);
	HOLDS(chirp_gap_ns(rate, bytes) >= 1);
	HOLDS(chirp_min_kbps(rate, spread, n, floor_kbps) >= floor_kbps);
	HOLDS(chirp_rate_kbps(rate, spread, i) >= law_min(rate, 1) &&
	      chirp_max_kbps(rate, spread, n) >= law_min(rate, 1));
	HOLDS(!i || chirp_depart_ns(rate, spread, i, bytes) >
			    chirp_depart_ns(rate, spread, i - 1, bytes));
	HOLDS(knee_pile_steps(spread, any_u32(), any_u32()) <= CHIRP_MOST);
	HOLDS(range_pause_us(any_u32(), any_u32()) <= ~0u - 1);
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
		backlog_life(1 + below(200));
		other_laws();
		layers_life();
		nf_life();
		chirp_shapes();
	}
	return 0;
}
