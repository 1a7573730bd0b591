// SPDX-License-Identifier: GPL-2.0-only
/* The flows of this instant, and their sums: see live.h. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "cc/flowtext.h"
#include "metrics/live.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "sys/shared.h"
#include "util/clock.h"
#include "util/memory.h"
#include "util/text.h"

int live_read(const char *what, struct live *live)
{
	int fd, err = shared_open(what, SHARED_FLOWS, &fd);

	*live = (struct live){ 0 };
	if (err || fd < 0)
		return err;
	live->known = true;
	live->now_ns = monotonic_ns();
	err = flows_read(fd, &live->flows, &live->n);
	close(fd);
	return err ? fail_errno(what, pin_path(shared_name(SHARED_FLOWS), NULL), err) : EXIT_OK;
}

void live_free(struct live *live)
{
	free(live->flows);
	*live = (struct live){ 0 };
}

/* --- sums ------------------------------------------------------------------------- */

static const struct {
	uint32_t most_us;
	const char *seconds;
} delays[LIVE_N_DELAYS] = {
#define X(us, seconds) { us, seconds },
	LIVE_DELAYS(X)
#undef X
};

static void add(struct live_sums *to, const struct ccbpf_flow *flow, uint64_t now_ns)
{
	unsigned int limit = 0;

	to->flows++;
	to->bytes_acked += flow->bytes_acked;
	to->retransmits += flow->retransmits;
	to->indications += flow->indications;
	to->cuts_to_one += flow->cuts_to_one;
	to->losses += flow->losses;
	to->marks += flow->marks;
	if (flow->phase < CCBPF_PHASES)
		to->phases[flow->phase]++;
	to->yielding[yielding_of(flow, NULL, YIELDING_NOT, now_ns)]++;
	while (flow->delay_smoothed_us > delays[limit].most_us) /* the last has no limit */
		limit++;
	to->delayed[limit]++;
	to->delay_us += flow->delay_smoothed_us;
}

/* A flow, and the group that it is in. */
struct member {
	uint64_t of;
	uint32_t kind;
	const struct ccbpf_flow *flow;
};

static int by_group(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->of != y->of)
		return x->of < y->of ? -1 : 1;
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

struct live_groups live_by(const struct live *live,
			   uint64_t (*of)(const void *data, const struct flow *flow),
			   const void *data)
{
	struct member *members = must_alloc(live->n + 1, sizeof(*members));
	struct live_groups groups = { must_alloc(live->n + 1, sizeof(*groups.all)), 0 };
	size_t n = 0;

	for (size_t i = 0; i < live->n; i++) {
		const struct ccbpf_flow *flow = &live->flows[i].record;

		members[n] = (struct member){ of(data, &live->flows[i]), flow->kind, flow };
		n += members[n].of && flow_kind_of(flow->kind);
	}
	qsort(members, n, sizeof(*members), by_group);
	for (size_t i = 0; i < n; i++) {
		struct live_group *group = &groups.all[groups.n];

		if (i && !by_group(&members[i - 1], &members[i]))
			group--;
		else
			groups.n++;
		group->of = members[i].of;
		group->kind = flow_kind_of(members[i].kind);
		add(&group->sums, members[i].flow, live->now_ns);
	}
	free(members);
	return groups;
}

void live_groups_free(struct live_groups *groups)
{
	free(groups->all);
	*groups = (struct live_groups){ 0 };
}

static int compare_key(const void *key, const void *group)
{
	const struct member *member = key;
	const struct live_group *g = group;
	const struct member other = { .of = g->of, .kind = g->kind->kind };

	return by_group(member, &other);
}

const struct live_group *live_group_of(const struct live_groups *groups, uint64_t of, uint32_t kind)
{
	const struct member key = { .of = of, .kind = kind };

	return groups->n ? bsearch(&key, groups->all, groups->n, sizeof(*groups->all), compare_key)
			 : NULL;
}

/* --- printing --------------------------------------------------------------------- */

struct printing {
	struct exposition *out;
	const char *prefix;
	const struct live_series *series;
	size_t n;
};

static void family(const struct printing *to, enum metric kind, const char *name, const char *help)
{
	exposition_family(to->out, kind, text("%s%s", to->prefix, name), help);
}

/* The labels of a series and one more, until the next call. */
static const struct label *with(const struct live_series *series, const char *name,
				const char *value)
{
	static struct label all[LIVE_LABELS_MOST + 2];
	unsigned int n = 0;

	for (; series->labels[n].name; n++)
		all[n] = series->labels[n];
	all[n++] = (struct label){ name, value };
	all[n] = (struct label){ NULL, NULL };
	return all;
}

#define NUMBER(to, field, help)                                              \
	do {                                                                 \
		family(to, METRIC_GAUGE, #field, help);                      \
		for (size_t i = 0; i < (to)->n; i++)                         \
			exposition_number((to)->out, (to)->series[i].labels, \
					  (to)->series[i].sums->field);      \
	} while (0)

static void carried(const struct printing *to)
{
	NUMBER(to, bytes_acked,
	       "bytes: acknowledged payload of the flows that live now, sent or (rx_le) received");
	NUMBER(to, retransmits, "packets that the flows that live now sent again");
}

static void reduced(const struct printing *to)
{
	NUMBER(to, indications, "early indications that the flows that live now acted upon");
	NUMBER(to, cuts_to_one, "second indications among them");
	NUMBER(to, losses, "reductions by loss of the flows that live now");
	NUMBER(to, marks, "reductions by ECN echo of the flows that live now");
}

static void by_phase(const struct printing *to)
{
	family(to, METRIC_GAUGE, "flows_in_phase",
	       "flows by what the controller does with them now");
	for (size_t i = 0; i < to->n; i++)
		for (unsigned int phase = 0; phase < CCBPF_PHASES; phase++)
			exposition_number(to->out, with(&to->series[i], "phase", phase_word(phase)),
					  to->series[i].sums->phases[phase]);
}

static void by_yielding(const struct printing *to)
{
	family(to, METRIC_GAUGE, "flows_yielding",
	       "flows that give way now, by what they give way to");
	for (size_t i = 0; i < to->n; i++)
		for (unsigned int y = YIELDING_NOT + 1; y < YIELDING_KINDS; y++)
			exposition_number(to->out, with(&to->series[i], "to", yielding_word(y)),
					  to->series[i].sums->yielding[y]);
}

static void by_delay(const struct printing *to)
{
	const char *limits[LIVE_N_DELAYS];

	for (unsigned int i = 0; i < LIVE_N_DELAYS; i++)
		limits[i] = delays[i].seconds;
	family(to, METRIC_GAUGE_HISTOGRAM, "flows_delay_seconds",
	       "flows that live now, by their smoothed queueing delay: a gauge in each bucket");
	for (size_t i = 0; i < to->n; i++) {
		const struct live_sums *sums = to->series[i].sums;

		exposition_histogram(to->out, to->series[i].labels, limits, sums->delayed,
				     LIVE_N_DELAYS,
				     text("%" PRIu64 ".%06" PRIu64, sums->delay_us / 1000000,
					  sums->delay_us % 1000000));
	}
}

void live_print(struct exposition *out, const char *prefix, const struct live_series *series,
		size_t n, unsigned int parts)
{
	const struct printing to = { out, prefix, series, n };

	if (parts & LIVE_FLOWS)
		NUMBER(&to, flows, "flows that the controller serves now");
	if (parts & LIVE_CARRIED)
		carried(&to);
	if (parts & LIVE_REDUCED)
		reduced(&to);
	if (parts & LIVE_PHASES)
		by_phase(&to);
	if (parts & LIVE_YIELDING)
		by_yielding(&to);
	if (parts & LIVE_DELAYS_FOUND)
		by_delay(&to);
}
