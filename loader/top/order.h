/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The order of the flows of `ccbpf top`, and of their groups, by the same figure: of a group it is the
 * sum of the rate, else the largest of its flows. Controllers keep the order of their table. What has
 * ended comes behind what lives, and the flows of which a group is not known come last.
 */
#ifndef CCBPF_TOP_ORDER_H
#define CCBPF_TOP_ORDER_H

#include "top/group.h"
#include "top/model.h"

/* What flows are sorted by: X(NAME, "word"). The largest come first. */
#define ORDERS(X)             \
	X(RATE, "rate")       \
	X(YIELDED, "yielded") \
	X(DELAY, "delay")     \
	X(CWND, "cwnd")       \
	X(AGE, "age")         \
	X(PORT, "port")

enum order_by {
#define X(name, word) ORDER_##name,
	ORDERS(X)
#undef X
	ORDER_KINDS
};

const char *order_word(enum order_by sort);

struct order {
	enum order_by sort;
	bool reversed;
	bool frozen; /* keep the order; new flows come last */
	bool resort; /* once, also if it is frozen */
	enum grouping by;
	uint32_t rank; /* of the next new flow where it is frozen */
};

/* A group, and what its line says. */
struct head {
	struct group group;
	const char *controller; /* of its first flow, as its record has it */
	struct sum sum;
	double weight; /* what it is sorted by, of its live flows */
	uint32_t rank; /* the least of its flows */
};

/* A flow, and its groups from the outermost on. NULL: there is no group so deep. */
struct placed {
	struct watched *flow;
	struct group group; /* the innermost */
	struct head *heads[GROUP_LEVELS];
};

/*
 * Sort `n` flows, of which `flow` is given, and find their groups. Returns the groups, to be freed,
 * and their number in `*n_heads`.
 */
struct head *order_flows(struct order *order, struct placed *flows, size_t n, size_t *n_heads);

#endif
