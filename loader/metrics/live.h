/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flows of this instant, and their sums by controller, rule or unit. A sum falls when a flow ends,
 * so all that is printed here is a gauge, and its name says `live`.
 */
#ifndef CCBPF_METRICS_LIVE_H
#define CCBPF_METRICS_LIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "cc/flowkinds.h"
#include "cc/flows.h"
#include "cc/yielding.h"
#include "metrics/exposition.h"

struct live {
	struct flow *flows;
	size_t n;
	uint64_t now_ns;
	bool known; /* the map of flows is pinned */
};

/* Read them; needs a lock. Returns EXIT_OK, or the exit code after saying what could not be read. */
int live_read(const char *what, struct live *live);
void live_free(struct live *live);

/* Limits of the histogram of smoothed queueing delays: X(us, "s") */
#define LIVE_DELAYS(X)   \
	X(1000, "0.001") \
	X(2000, "0.002") \
	X(5000, "0.005") \
	X(10000, "0.01") \
	X(20000, "0.02") \
	X(50000, "0.05") \
	X(100000, "0.1") \
	X(200000, "0.2") \
	X(500000, "0.5") \
	X(~0u, "+Inf")

#define LIVE_ONE(us, seconds) +1
enum {
	LIVE_N_DELAYS = LIVE_DELAYS(LIVE_ONE)
};

struct live_sums {
	uint64_t flows, bytes_acked, retransmits, indications, cuts_to_one, losses, marks;
	uint64_t phases[CCBPF_PHASES], yielding[YIELDING_KINDS];
	uint64_t delayed[LIVE_N_DELAYS]; /* flows above the limit before, up to this one */
	uint64_t delay_us; /* of all flows together */
};

struct live_group {
	uint64_t of; /* what the flows have in common: a number that is not 0 */
	const struct flow_kind *kind;
	struct live_sums sums;
};

struct live_groups {
	struct live_group *all; /* by `of`, then by kind */
	size_t n;
};

/* Sum the flows up by what `of` says of each, and by kind; 0: the flow is in no group. */
struct live_groups live_by(const struct live *live,
			   uint64_t (*of)(const void *data, const struct flow *flow),
			   const void *data);
void live_groups_free(struct live_groups *groups);

/* That of a kind, or NULL. */
const struct live_group *live_group_of(const struct live_groups *groups, uint64_t of,
				       uint32_t kind);

/* What is printed of each series. */
enum {
	LIVE_FLOWS = 1,
	LIVE_CARRIED = 2, /* bytes, retransmits */
	LIVE_REDUCED = 4, /* indications, cuts, losses, marks */
	LIVE_PHASES = 8,
	LIVE_YIELDING = 16,
	LIVE_DELAYS_FOUND = 32,
};

#define LIVE_LABELS_MOST 3

struct live_series {
	struct label labels[LIVE_LABELS_MOST + 1];
	const struct live_sums *sums;
};

/* Print families that begin with `prefix`, such as "ccbpf_live_". */
void live_print(struct exposition *out, const char *prefix, const struct live_series *series,
		size_t n, unsigned int parts);

#endif
