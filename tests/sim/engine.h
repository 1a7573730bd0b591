/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock of the simulator, its events, timers and random numbers.
 *
 * Virtual time is in ns. It starts at the uptime that the scenario gives its hosts (`up_s`), which is never 0. Events at
 * the same instant run in the order in which they were scheduled: a run is the same on every machine.
 */
#ifndef CCBPF_SIM_ENGINE_H
#define CCBPF_SIM_ENGINE_H

#include "ccbpf/types.h"

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull
#define ENGINE_UP_S 1000 /* where a scenario gives no uptime */

extern u64 engine_start_ns, engine_now_ns;

/* Before anything else: virtual time starts here. */
void engine_begin(u64 start_ns);

/* run(owner, argument) at the given time, at the earliest now. */
void engine_at(u64 at_ns, void (*run)(void *owner, void *argument), void *owner, void *argument);

/* Runs all events up to this time. */
void engine_run(u64 until_ns);

/* A timer that is moved far more often than it expires: one event waits for it at a time. */
struct timer {
	u64 at_ns; /* when it expires; 0: it is not set */
	u64 queued_ns; /* time of the event that waits for it; 0: none */
	void (*expire)(void *owner);
	void *owner;
};

void timer_init(struct timer *t, void (*expire)(void *owner), void *owner);
void timer_set(struct timer *t, u64 at_ns);
void timer_clear(struct timer *t);

/* xoshiro256** by Blackman and Vigna (2018), seeded by splitmix64; one stream for each use keeps draws comparable. */
struct random {
	u64 state[4];
};

void random_seed(struct random *r, u64 seed, u64 stream);
u64 random_bits(struct random *r);
double random_unit(struct random *r); /* uniform in [0, 1) */

#endif
