// SPDX-License-Identifier: GPL-2.0-only
/*
 * By the cgroup of the sockets: what their flows have done, those that have ended included, and the flows
 * of this instant. Only cgroups that exist are shown, and only UNITS_MOST pairs of cgroup and
 * controller, those that carried the most: each is some series for as long as it lives.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cc/flowkinds.h"
#include "cc/totals.h"
#include "metrics/metrics.h"
#include "metrics/totals.h"
#include "out/errors.h"
#include "sys/cgroupnames.h"
#include "sys/shared.h"
#include "util/memory.h"

#define UNITS_MOST 500

#define COUNTERS(X)                                                           \
	X(flows, "flows", number, "flows that the controller has taken over") \
	TOTALS_OF_PART(X)

struct units {
	struct unit_total *all;
	size_t n, left_out;
};

static const char *controller_of(const struct unit_total *unit)
{
	return flow_kind_of(unit->key.kind)->name;
}

/* --- which are shown -------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
	const struct unit_total *x = a, *y = b;

	return x->totals.bytes_acked > y->totals.bytes_acked
		       ? -1
		       : x->totals.bytes_acked < y->totals.bytes_acked;
}

static void name_units(struct units *units)
{
	struct cgroup_name *names = must_alloc(units->n + 1, sizeof(*names));
	size_t n = units->n, kept = 0;
	bool whole;

	for (size_t i = 0; i < n; i++)
		names[i].id = units->all[i].key.cgroup;
	whole = cgroup_names_find(names, &n);
	for (size_t i = 0; i < units->n; i++) {
		struct unit_total *unit = &units->all[i];

		unit->name = cgroup_name_of(names, n, unit->key.cgroup);
		if (!flow_kind_of(unit->key.kind))
			continue;
		if (unit->name && kept < UNITS_MOST)
			units->all[kept++] = *unit;
		else
			units->left_out += unit->name || !whole; /* else it is gone */
	}
	units->n = kept;
	free(names);
}

/* --- the flows of this instant ---------------------------------------------------- */

static uint64_t cgroup_of(const void *data, const struct flow *flow)
{
	(void)data;
	return flow->record.life.cgroup;
}

/* Pairs without a flow have no series. */
static void flows_of(const struct units *units, const struct live_groups *groups,
		     struct exposition *out)
{
	struct live_series *series = must_alloc(units->n + 1, sizeof(*series));
	size_t n = 0;

	for (size_t i = 0; i < units->n; i++) {
		const struct unit_total *unit = &units->all[i];
		const struct live_group *group =
			live_group_of(groups, unit->key.cgroup, unit->key.kind);

		if (group)
			series[n++] = (struct live_series){
				.labels = { { "unit", unit->name },
					    { "controller", controller_of(unit) } },
				.sums = &group->sums,
			};
	}
	live_print(out, "ccbpf_unit_live_", series, n,
		   LIVE_FLOWS | LIVE_YIELDING | LIVE_DELAYS_FOUND);
	free(series);
}

static void print_flows(const struct units *units, const struct live *live, struct exposition *out)
{
	struct live_groups groups = live_by(live, cgroup_of, NULL);

	flows_of(units, &groups, out);
	live_groups_free(&groups);
}

/* ---------------------------------------------------------------------------------- */

static void print_counters(const struct units *units, struct exposition *out)
{
#define X(field, called, form, help)                                                       \
	exposition_family(out, METRIC_COUNTER, "ccbpf_unit_" called, help);                \
	for (size_t i = 0; i < units->n; i++)                                              \
		exposition_##form(out,                                                     \
				  LABELS({ "unit", units->all[i].name },                   \
					 { "controller", controller_of(&units->all[i]) }), \
				  units->all[i].totals.field);
	COUNTERS(X)
#undef X
	exposition_family(
		out, METRIC_GAUGE, "ccbpf_units_left_out",
		"pairs of cgroup and controller that are not shown: too many, or not found in time");
	exposition_number(out, LABELS({ NULL, NULL }), units->left_out);
}

int metrics_units(const char *what, const struct live *live, struct exposition *out)
{
	struct units units = { 0 };
	int fd, err = shared_open(what, SHARED_UNITS, &fd);

	if (err || fd < 0)
		return err;
	units_totals_read(fd, &units.all, &units.n);
	close(fd);
	if (units.n)
		qsort(units.all, units.n, sizeof(*units.all), by_bytes);
	name_units(&units);
	print_counters(&units, out);
	if (live->known)
		print_flows(&units, live, out);
	free(units.all);
	return EXIT_OK;
}
