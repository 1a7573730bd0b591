// SPDX-License-Identifier: GPL-2.0-only
/* The flows that `ccbpf top` watches: see model.h. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/shared.h"
#include "top/model.h"
#include "util/clock.h"
#include "util/memory.h"

#define NS_PER_S 1000000000ull

static int by_key(const void *a, const void *b)
{
	const struct flow *x = a, *y = b; /* a struct watched begins with one */

	return x->key < y->key ? -1 : x->key > y->key;
}

uint64_t watched_age_ns(const struct watched *watched, uint64_t now_ns)
{
	uint64_t started_ns = watched->flow.record.started_ns,
		 ended_ns = watched->ended_ns ?: now_ns;

	return ended_ns > started_ns ? ended_ns - started_ns : 0;
}

uint64_t watched_yields_ns(const struct watched *watched, uint64_t now_ns)
{
	return watched->yielding != YIELDING_NOT && now_ns > watched->yielding_since_ns
		       ? now_ns - watched->yielding_since_ns
		       : 0;
}

/* The record has it from its second writing in such a phase on; until then it is the first one. */
static uint64_t yielding_since(const struct ccbpf_flow *record)
{
	return record->life.yields_since_ns ?: record->updated_ns;
}

static void look(struct watched *w, const struct flow *flow, const struct ccbpf_flow *before,
		 uint64_t now_ns)
{
	const struct ccbpf_flow *record = &flow->record;
	uint64_t age_ns;

	w->flow = *flow;
	w->yielding = yielding_of(record, before, w->yielding, now_ns);
	w->yielding_since_ns = yielding_since(record);
	age_ns = watched_age_ns(w, now_ns);
	w->yielded = record->life.yielded_ns < age_ns ? (double)record->life.yielded_ns / age_ns
						      : !!record->life.yielded_ns;
}

static struct watched first_seen(const struct flow *flow, uint64_t now_ns)
{
	struct watched first = {
		.group = { [GROUP_CONTROLLER] = flow->record.kind,
			   [GROUP_CGROUP] = GROUP_UNKNOWN,
			   [GROUP_PROCESS] = GROUP_UNKNOWN },
		.yielding = YIELDING_NOT,
		.period_bytes = flow->record.bytes_acked,
		.period_ns = now_ns,
		.rank = RANK_NONE,
	};

	look(&first, flow, NULL, now_ns);
	return first;
}

/* One sample more. */
static void seen_again(struct watched *to, const struct watched *before, const struct flow *flow,
		       uint64_t now_ns)
{
	*to = *before;
	look(to, flow, &before->flow.record, now_ns);
}

static bool is_same(const struct watched *watched, const struct flow *flow)
{
	return watched->flow.key == flow->key &&
	       watched->flow.record.started_ns == flow->record.started_ns &&
	       watched->flow.record.kind == flow->record.kind;
}

struct flow_id watched_id(const struct watched *watched)
{
	return (struct flow_id){ watched->flow.key, watched->flow.record.started_ns };
}

bool flow_id_is(const struct flow_id *a, const struct flow_id *b)
{
	return a->key == b->key && a->started_ns == b->started_ns;
}

static bool is_flow(const struct watched *watched, const struct flow_id *id)
{
	const struct flow_id own = watched_id(watched);

	return flow_id_is(&own, id);
}

/* It is not there any more. */
static void end(struct model *model, const struct watched *watched, uint64_t now_ns)
{
	struct watched *ended;

	if (!model->screen) {
		free(watched->history);
		return;
	}
	/* Doubled whenever its number is a power of two. */
	if (!(model->n_ended & (model->n_ended - 1)))
		model->ended =
			must_grow(model->ended, (2 * model->n_ended + 1) * sizeof(*model->ended));
	ended = &model->ended[model->n_ended++];
	*ended = *watched;
	ended->ended_ns = now_ns;
	ended->yielding = YIELDING_NOT;
	ended->goodput_bps = 0;
}

/* Those that ended a while ago, and the first ones where there are many. */
static void forget(struct model *model, uint64_t now_ns)
{
	size_t kept = 0, over = model->n_ended > ENDED_MOST ? model->n_ended - ENDED_MOST : 0;

	for (size_t i = 0; i < model->n_ended; i++) {
		struct watched *w = &model->ended[i];
		bool young = i >= over && now_ns - w->ended_ns < ENDED_S * NS_PER_S;

		if (young || (model->holds && is_flow(w, &model->held)))
			model->ended[kept++] = *w;
		else
			free(w->history);
	}
	model->n_ended = kept;
}

static void merge(struct model *model, struct flow *flows, size_t n, uint64_t now_ns)
{
	struct watched *merged = must_alloc(n ?: 1, sizeof(*merged)), *before = model->flows,
		       *last = model->flows + model->n;
	size_t kept = 0;

	if (n)
		qsort(flows, n, sizeof(*flows), by_key);
	for (size_t i = 0; i < n; i++) {
		if (i && flows[i].key == flows[i - 1].key)
			continue; /* the walk has met it twice */
		while (before < last && before->flow.key < flows[i].key)
			end(model, before++, now_ns);
		if (before < last && is_same(before, &flows[i]))
			seen_again(&merged[kept++], before++, &flows[i], now_ns);
		else
			merged[kept++] = first_seen(&flows[i], now_ns);
	}
	while (before < last)
		end(model, before++, now_ns);
	forget(model, now_ns);
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

/* What was sent since the last period, if one is over for this flow. */
static void end_period(struct watched *w, uint64_t now_ns, bool keep)
{
	uint64_t bytes = w->flow.record.bytes_acked, passed_ns = now_ns - w->period_ns;

	if (!passed_ns)
		return;
	w->goodput_bps = bytes > w->period_bytes
				 ? (double)(bytes - w->period_bytes) * 8 * NS_PER_S / passed_ns
				 : 0;
	w->goodput_known = true;
	w->period_bytes = bytes;
	w->period_ns = now_ns;
	if (keep)
		history_add(&w->history, (const double[CURVES]){
						 [CURVE_RATE] = w->goodput_bps,
						 [CURVE_WINDOW] = w->flow.record.cwnd,
						 [CURVE_DELAY] = w->flow.record.delay_smoothed_us,
					 });
}

void model_period(struct model *model)
{
	for (size_t i = 0; i < model->n; i++)
		end_period(&model->flows[i], model->now_ns, model->screen);
}

static struct watched *find(struct watched *all, size_t n, const struct flow_id *id)
{
	for (size_t i = 0; i < n; i++)
		if (is_flow(&all[i], id))
			return &all[i];
	return NULL;
}

struct watched *model_find(const struct model *model, const struct flow_id *id)
{
	return find(model->flows, model->n, id) ?: find(model->ended, model->n_ended, id);
}

static void free_flows(struct watched *flows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(flows[i].history);
	free(flows);
}

void model_free(struct model *model)
{
	free_flows(model->flows, model->n);
	free_flows(model->ended, model->n_ended);
	*model = (struct model){ 0 };
}

void sum_add(struct sum *sum, const struct watched *watched)
{
	if (watched->ended_ns) {
		sum->ended++;
		return;
	}
	sum->flows++;
	sum->yielding[watched->yielding]++;
	sum->goodput_bps += watched->goodput_bps;
}

size_t sum_yielding(const struct sum *sum)
{
	return sum->flows - sum->yielding[YIELDING_NOT];
}
