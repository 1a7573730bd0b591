/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flows that `ccbpf top` watches. The map `flows` is sampled a few times a second; what a
 * record does not hold is added up here, from the first sample on that shows the flow: to what
 * it yields, since when, for how long in sum, and what it sent per second.
 */
#ifndef CCBPF_TOP_MODEL_H
#define CCBPF_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cc/flows.h"
#include "cc/yielding.h"

struct watched {
	struct flow flow; /* as of the last sample */
	enum yielding yielding;
	uint64_t yielding_since_ns; /* the first sample that shows it */
	uint64_t yielded_ns; /* of watched_ns */
	uint64_t watched_ns; /* from its first sample to the last */
	uint64_t goodput_bps; /* acknowledged payload, over the last period */
	bool goodput_known; /* it lives for a period already */
	uint64_t period_bytes; /* bytes_acked when the period began */
	uint64_t period_ns; /* when the period began */
	uint32_t rank; /* in the last order; RANK_NONE: it is new */
};
#define RANK_NONE UINT32_MAX

struct model {
	struct watched *flows; /* by key */
	size_t n;
	uint64_t now_ns; /* of the last sample */
};

/*
 * Read the map anew; where it is not pinned there are no flows. Silent. Returns 0, or an error
 * as pin_open_map() returns it.
 */
int model_sample(struct model *model);

/* A period is over: what was sent in it becomes the goodput. */
void model_period(struct model *model);

void model_free(struct model *model);

/* Several flows together. */
struct sum {
	size_t flows, yielding[YIELDING_KINDS];
	uint64_t goodput_bps;
};

void sum_add(struct sum *sum, const struct watched *watched);

/* How many of them yield. */
size_t sum_yielding(const struct sum *sum);

#endif
