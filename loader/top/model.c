// SPDX-License-Identifier: GPL-2.0-only
/* The flows that `ccbpf top` watches: see model.h. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cc/shared.h"
#include "top/model.h"
#include "util/clock.h"
#include "util/memory.h"

#define NS_PER_S 1000000000ull

static int by_key(const void *a, const void *b)
{
	const struct flow *x = a, *y = b; /* a struct watched begins with one */

	return x->key < y->key ? -1 : x->key > y->key;
}

static struct watched first_seen(const struct flow *flow, uint64_t now_ns)
{
	return (struct watched){
		.flow = *flow,
		.yielding = yielding_of(&flow->record, NULL, YIELDING_NOT, now_ns),
		.yielding_since_ns = now_ns,
		.period_bytes = flow->record.bytes_acked,
		.period_ns = now_ns,
		.rank = RANK_NONE,
	};
}

/* One sample more. What it did between two samples is what it did at the first one. */
static void seen_again(struct watched *to, const struct watched *before, const struct flow *flow,
		       uint64_t passed_ns, uint64_t now_ns)
{
	*to = *before;
	to->flow = *flow;
	to->watched_ns += passed_ns;
	if (before->yielding != YIELDING_NOT)
		to->yielded_ns += passed_ns;
	to->yielding = yielding_of(&flow->record, &before->flow.record, before->yielding, now_ns);
	if (before->yielding == YIELDING_NOT)
		to->yielding_since_ns = now_ns;
}

/* A key is the address of a socket, and may come again. */
static bool is_same(const struct watched *watched, const struct flow *flow)
{
	return watched->flow.key == flow->key &&
	       watched->flow.record.started_ns == flow->record.started_ns &&
	       watched->flow.record.kind == flow->record.kind;
}

/* Nobody looked for longer than that: it was paused, or stopped. That time is not watched. */
#define GAP_MOST_NS (2 * NS_PER_S)

static uint64_t passed_since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns - then_ns > GAP_MOST_NS ? 0 : now_ns - then_ns;
}

static void merge(struct model *model, struct flow *flows, size_t n, uint64_t now_ns)
{
	uint64_t passed_ns = passed_since(model->now_ns, now_ns);
	struct watched *merged = must_alloc(n ?: 1, sizeof(*merged)), *before = model->flows,
		       *end = model->flows + model->n;
	size_t kept = 0;

	if (n)
		qsort(flows, n, sizeof(*flows), by_key);
	for (size_t i = 0; i < n; i++) {
		if (i && flows[i].key == flows[i - 1].key)
			continue; /* the walk has met it twice */
		while (before < end && before->flow.key < flows[i].key)
			before++;
		if (before < end && is_same(before, &flows[i]))
			seen_again(&merged[kept++], before, &flows[i], passed_ns, now_ns);
		else
			merged[kept++] = first_seen(&flows[i], now_ns);
	}
	free(model->flows);
	model->flows = merged;
	model->n = kept;
	model->now_ns = now_ns;
}

int model_sample(struct model *model)
{
	int fd = shared_open_quietly(SHARED_FLOWS), err = 0;
	struct flow *flows = NULL;
	size_t n = 0;

	if (fd < 0 && fd != -ENOENT)
		return fd;
	if (fd >= 0) {
		err = flows_read(fd, &flows, &n);
		close(fd);
	}
	if (!err)
		merge(model, flows, n, monotonic_ns());
	free(flows);
	return err;
}

void model_period(struct model *model)
{
	for (size_t i = 0; i < model->n; i++) {
		struct watched *w = &model->flows[i];
		uint64_t bytes = w->flow.record.bytes_acked,
			 passed_ns = model->now_ns - w->period_ns;

		if (!passed_ns)
			continue;
		w->goodput_bps = bytes > w->period_bytes ? (double)(bytes - w->period_bytes) * 8 *
								   NS_PER_S / passed_ns
							 : 0;
		w->goodput_known = true;
		w->period_bytes = bytes;
		w->period_ns = model->now_ns;
	}
}

void model_free(struct model *model)
{
	free(model->flows);
	*model = (struct model){ 0 };
}

void sum_add(struct sum *sum, const struct watched *watched)
{
	sum->flows++;
	sum->yielding[watched->yielding]++;
	sum->goodput_bps += watched->goodput_bps;
}

size_t sum_yielding(const struct sum *sum)
{
	return sum->flows - sum->yielding[YIELDING_NOT];
}
