// SPDX-License-Identifier: GPL-2.0-only
/* The order of flows and groups: see order.h. */
#include <stdlib.h>

#include "top/order.h"
#include "util/memory.h"

const char *order_word(enum order_by sort)
{
	static const char *const words[] = {
#define X(name, word) word,
		ORDERS(X)
#undef X
	};

	return words[sort];
}

/* What a flow is sorted by, as a number. */
static double weight(const struct watched *w, enum order_by sort)
{
	const struct ccbpf_flow *f = &w->flow.record;

	switch (sort) {
	case ORDER_RATE:
		return w->goodput_bps;
	case ORDER_YIELDED:
		return w->yielded;
	case ORDER_DELAY:
		return f->delay_smoothed_us;
	case ORDER_CWND:
		return f->cwnd;
	case ORDER_AGE:
		return -(double)f->started_ns;
	case ORDER_PORT:
		return f->remote_port;
	default:
		return 0;
	}
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* A total order, so that what is equal keeps its place. */
static int by_start(const struct watched *x, const struct watched *y)
{
	return compare(x->flow.record.started_ns, y->flow.record.started_ns)
		       ?: compare(x->flow.key, y->flow.key);
}

static int by_weight(const struct order *order, double p, double q)
{
	if (p == q)
		return 0;
	return (p > q) != order->reversed ? -1 : 1;
}

static bool keeps(const struct order *order)
{
	return order->frozen && !order->resort;
}

static int by_flow(const struct order *order, const struct watched *x, const struct watched *y)
{
	int found;

	if (keeps(order))
		found = compare(x->rank, y->rank);
	else
		found = compare(x->ended_ns != 0, y->ended_ns != 0)
				?: by_weight(order, weight(x, order->sort), weight(y, order->sort));
	return found ?: by_start(x, y);
}

/* Two groups of a level, within the same one. */
static int by_head(const struct order *order, unsigned int level, const struct head *x,
		   const struct head *y)
{
	uint64_t a = x->group.of[level], b = y->group.of[level];
	int found = compare(a == GROUP_UNKNOWN, b == GROUP_UNKNOWN);

	if (!found && grouping_kind(order->by, level) != GROUP_CONTROLLER)
		found = keeps(order) ? compare(x->rank, y->rank)
				     : compare(!x->sum.flows, !y->sum.flows)
					       ?: by_weight(order, x->weight, y->weight);
	return found ?: compare(a, b);
}

static int by_place(const void *a, const void *b, void *data)
{
	const struct placed *x = a, *y = b;

	for (unsigned int level = 0; level < GROUP_LEVELS; level++) {
		const struct head *p = x->heads[level], *q = y->heads[level];

		if (p && q && p != q)
			return by_head(data, level, p, q);
		if (p != q)
			return p ? -1 : 1;
	}
	return by_flow(data, x->flow, y->flow);
}

static int by_group(const void *a, const void *b)
{
	const struct group *x = &((const struct placed *)a)->group,
			   *y = &((const struct placed *)b)->group;
	int found = 0;

	for (unsigned int level = 0; !found && level < GROUP_LEVELS; level++)
		found = compare(x->of[level], y->of[level]);
	return found;
}

/* A process that is not known has no line of its own in its cgroup. */
static struct group group_of(const struct watched *w, enum grouping by)
{
	struct group group = { .depth = grouping_levels(by) };

	for (unsigned int level = 0; level < group.depth; level++)
		group.of[level] = w->group[grouping_kind(by, level)];
	while (group.depth > 1 && group.of[group.depth - 1] == GROUP_UNKNOWN)
		group.depth--;
	return group;
}

static void head_add(struct head *head, const struct watched *w, enum order_by sort)
{
	double of_flow = weight(w, sort);
	bool first = !head->sum.flows;

	sum_add(&head->sum, w);
	if (w->rank < head->rank)
		head->rank = w->rank;
	if (w->ended_ns)
		return;
	if (sort == ORDER_RATE)
		head->weight += of_flow;
	else if (first || of_flow > head->weight)
		head->weight = of_flow;
}

/* The groups of flows that are sorted by group. Returns how many there are. */
static size_t find_heads(const struct order *order, struct head *heads, struct placed *flows,
			 size_t n)
{
	size_t n_heads = 0;

	for (size_t i = 0; i < n; i++) {
		struct placed *to = &flows[i];
		struct group group = to->group;

		for (group.depth = 1; group.depth <= to->group.depth; group.depth++) {
			struct head **head = &to->heads[group.depth - 1];

			if (i && group_within(&flows[i - 1].group, &group)) {
				*head = flows[i - 1].heads[group.depth - 1];
			} else {
				*head = &heads[n_heads++];
				**head = (struct head){ .group = group,
							.controller =
								to->flow->flow.record.controller,
							.rank = RANK_NONE };
			}
			head_add(*head, to->flow, order->sort);
		}
	}
	return n_heads;
}

/* A frozen order stays what it is, also of flows that are not among these. */
static void remember(struct order *order, struct placed *flows, size_t n)
{
	bool kept = keeps(order);

	for (size_t i = 0; i < n; i++)
		if (!kept)
			flows[i].flow->rank = i;
		else if (flows[i].flow->rank == RANK_NONE)
			flows[i].flow->rank = order->rank++;
	if (!kept && order->rank < n)
		order->rank = n;
	order->resort = false;
}

struct head *order_flows(struct order *order, struct placed *flows, size_t n, size_t *n_heads)
{
	struct head *heads = must_alloc(GROUP_LEVELS * n ?: 1, sizeof(*heads));

	for (size_t i = 0; i < n; i++)
		flows[i].group = group_of(flows[i].flow, order->by);
	if (n)
		qsort(flows, n, sizeof(*flows), by_group);
	*n_heads = find_heads(order, heads, flows, n);
	if (n)
		qsort_r(flows, n, sizeof(*flows), by_place, order);
	remember(order, flows, n);
	return heads;
}
