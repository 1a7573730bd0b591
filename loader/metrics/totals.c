// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the flows of each controller have done, those that have ended included; with `units` also by
 * the cgroup of their sockets. Only cgroups that exist are shown, and only UNITS_MOST of them,
 * those that carried the most: each is some series for as long as it lives.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cc/totals.h"
#include "metrics/metrics.h"
#include "out/errors.h"
#include "sys/cgroup.h"
#include "sys/pins.h"
#include "sys/shared.h"
#include "util/memory.h"
#include "util/text.h"

#define UNITS_MOST 500
#define PATH_MOST 4096

/* X(field, "called", form, help): those that no other metric of the controllers has */
#define ADDED(X)                                                                       \
	X(bytes_acked, "bytes_acked", number,                                          \
	  "bytes that were acknowledged, also of flows that have ended; a FIN is one") \
	X(retransmits, "retransmits", number, "packets that were sent again")          \
	X(sending_ns, "sending_seconds", seconds,                                      \
	  "time in which data was acknowledged, of all flows together")                \
	X(yielded_ns, "yielded_seconds", seconds,                                      \
	  "time among it in which the flow gave way: inference, small, recovery")

#define BY_UNIT(X)                                                             \
	X(flows, "flows", number, "flows that the controller has taken over")  \
	ADDED(X)                                                               \
	X(indications, "indications", number, "early indications acted upon")  \
	X(cuts_to_one, "cuts_to_one", number, "second indications among them") \
	X(losses, "losses", number, "reductions by loss")                      \
	X(marks, "marks", number, "reductions by ECN echo")

static int unusable(const char *what, enum shared map, int err)
{
	return fail_errno(what, pin_path(shared_name(map), NULL), err);
}

int metrics_totals(const char *what, struct exposition *out)
{
	struct ccbpf_totals all[CCBPF_KINDS];
	int fd, err = shared_open(what, SHARED_TOTALS, &fd);

	if (err || fd < 0)
		return err; /* programs of an older ccbpf keep none */
	for (unsigned int i = 0; !err && i < n_controllers; i++)
		err = totals_read(fd, &controllers[i], &all[i]);
	close(fd);
	if (err)
		return unusable(what, SHARED_TOTALS, err);
#define X(field, called, form, help)                                   \
	exposition_family(out, METRIC_COUNTER, "ccbpf_" called, help); \
	for (unsigned int i = 0; i < n_controllers; i++)               \
		exposition_##form(out, LABELS({ "controller", controllers[i].name }), all[i].field);
	ADDED(X)
#undef X
	return EXIT_OK;
}

static int by_bytes(const void *a, const void *b)
{
	const struct unit_total *x = a, *y = b;

	return x->totals.bytes_acked > y->totals.bytes_acked
		       ? -1
		       : x->totals.bytes_acked < y->totals.bytes_acked;
}

/* Those that are shown come first, with their names. Returns their number. */
static size_t name_units(struct unit_total *units, size_t n, size_t *left_out)
{
	size_t named = 0;

	*left_out = 0;
	if (n)
		qsort(units, n, sizeof(*units), by_bytes);
	for (size_t i = 0; i < n; i++) {
		char path[PATH_MOST];
		int err;

		if (!controller_of_kind(units[i].key.kind))
			continue;
		err = named < UNITS_MOST ? cgroup_path(units[i].key.cgroup, path, sizeof(path))
					 : -E2BIG;
		if (err) {
			*left_out += !cgroup_removed(err);
			continue;
		}
		units[named] = units[i];
		units[named++].name = text("%s", path);
	}
	return named;
}

int metrics_units(const char *what, struct exposition *out)
{
	struct unit_total *units;
	size_t n, left_out;
	int fd, err = shared_open(what, SHARED_UNITS, &fd);

	if (err || fd < 0)
		return err;
	units_totals_read(fd, &units, &n);
	close(fd);
	n = name_units(units, n, &left_out);
#define X(field, called, form, help)                                                           \
	exposition_family(out, METRIC_COUNTER, "ccbpf_unit_" called, help);                    \
	for (size_t i = 0; i < n; i++)                                                         \
		exposition_##form(                                                             \
			out,                                                                   \
			LABELS({ "unit", units[i].name },                                      \
			       { "controller", controller_of_kind(units[i].key.kind)->name }), \
			units[i].totals.field);
	BY_UNIT(X)
#undef X
	exposition_family(out, METRIC_GAUGE, "ccbpf_units_left_out",
			  "cgroups that are not shown: too many, or not to be named");
	exposition_number(out, LABELS({ NULL, NULL }), left_out);
	free(units);
	return EXIT_OK;
}
