/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flows that `ccbpf top` watches. The map `flows` is sampled a few times a second; what a
 * record does not hold is found here from one sample to the next: to what the flow yields, and what
 * it sent per second. Where there is a screen, flows that end are kept for a while, and the last
 * periods of each flow.
 */
#ifndef CCBPF_TOP_MODEL_H
#define CCBPF_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cc/flows.h"
#include "cc/yielding.h"
#include "top/group.h"
#include "top/history.h"

#define ENDED_S 10 /* for so long a flow that has ended is kept */
#define ENDED_MOST 4096 /* of them, the last ones */

/* A key is the address of a socket, and may come again. */
struct flow_id {
	uint64_t key, started_ns;
};

struct watched {
	struct flow flow; /* as of the last sample */
	enum yielding yielding;
	uint64_t yielding_since_ns; /* if it yields */
	double yielded; /* part of its age in which it yielded, 0 to 1 */
	uint64_t goodput_bps; /* acknowledged payload, over the last period */
	bool goodput_known; /* it lives for a period already */
	uint64_t period_bytes; /* bytes_acked when the period began */
	uint64_t period_ns; /* when the period began */
	uint64_t group[GROUP_KINDS];
	struct history *history; /* NULL: no period yet, or there is no screen */
	uint64_t ended_ns; /* the first sample without it; 0: it lives */
	uint32_t rank; /* in the last order; RANK_NONE: it is new */
};
#define RANK_NONE UINT32_MAX

struct model {
	struct watched *flows; /* by key */
	size_t n;
	struct watched *ended; /* the oldest first */
	size_t n_ended;
	uint64_t now_ns; /* of the last sample */
	bool screen; /* there is one: keep what has ended, and histories */
	bool holds; /* keep `held` for as long as that, also if it has ended */
	struct flow_id held;
};

/*
 * Read the map anew; where it is not pinned there are no flows. Silent. Returns 0, or an error
 * as pin_open_map() returns it.
 */
int model_sample(struct model *model);

/* A period is over: what was sent in it becomes the goodput. */
void model_period(struct model *model);

/* The flow, also if it has ended, or NULL. */
struct watched *model_find(const struct model *model, const struct flow_id *id);

/* Since its controller took it over, up to its end if it has ended. */
uint64_t watched_age_ns(const struct watched *watched, uint64_t now_ns);

/* For how long it has yielded without a break; 0: it does not yield now. */
uint64_t watched_yields_ns(const struct watched *watched, uint64_t now_ns);

void model_free(struct model *model);

struct flow_id watched_id(const struct watched *watched);
bool flow_id_is(const struct flow_id *a, const struct flow_id *b);

/* Several flows together. */
struct sum {
	size_t flows, yielding[YIELDING_KINDS];
	uint64_t goodput_bps;
	size_t ended; /* of which nothing else is in the sum */
};

void sum_add(struct sum *sum, const struct watched *watched);

/* How many of them yield. */
size_t sum_yielding(const struct sum *sum);

#endif
