// SPDX-License-Identifier: GPL-2.0-only
/* The controllers: which are enabled, and the counters of the map `stats`; the same of downloads, as far as they have them. */
#include <string.h>
#include <unistd.h>

#include "cc/running.h"
#include "sys/shared.h"
#include "cc/stats.h"
#include "cc/totals.h"
#include "ccbpf/rule.h"
#include "metrics/metrics.h"
#include "out/errors.h"
#include "sys/pins.h"

static int enabled(const char *what, struct exposition *out)
{
	exposition_family(out, METRIC_GAUGE, "ccbpf_controller_enabled",
			  "1 if sockets can select the controller");
	for_each_controller (c) {
		struct running running;
		int err = running_open(what, c, &running);

		if (err)
			return err;
		exposition_number(out, LABELS({ "controller", c->name }),
				  running_is_enabled(&running));
		running_close(&running);
	}
	return EXIT_OK;
}

/* Of downloads, from their totals: X(count, total) */
#define DOWNLOADS(X)                \
	X(flows_opened, flows)      \
	X(indications, indications) \
	X(cuts_to_one, cuts_to_one) \
	X(losses, losses)

/* ... and from their own row of the map `stats`: X(count) */
#define DOWNLOADS_STATS(X) X(flows_untracked) X(events_dropped)

/* NULL: they have no such counter. `all`: by kind */
static const __u64 *of_downloads(const struct ccbpf_totals *totals, const struct ccbpf_stats *all,
				 const char *count)
{
#define X(name, total)                 \
	if (strcmp(count, #name) == 0) \
		return &totals->total;
	DOWNLOADS(X)
#undef X
#define X(name)                        \
	if (strcmp(count, #name) == 0) \
		return &all[CCBPF_KIND_rx_le].name;
	DOWNLOADS_STATS(X)
#undef X
	return NULL;
}

/* `all`: by kind; `*fd`: of the pinned map, or negative where there is none. */
static int stats_of_all(const char *what, struct ccbpf_stats *all, int *fd)
{
	int err = shared_open(what, SHARED_STATS, fd);

	memset(all, 0, CCBPF_KINDS * sizeof(*all));
	if (err || *fd < 0)
		return err;
	for (unsigned int kind = 0; !err && kind < CCBPF_KINDS; kind++)
		err = stats_read(*fd, kind, &all[kind]);
	close(*fd);
	return err ? fail_errno(what, pin_path(shared_name(SHARED_STATS), NULL), err) : EXIT_OK;
}

static int downloads_read(const char *what, struct ccbpf_totals *totals, int *fd)
{
	int err = shared_open(what, SHARED_TOTALS, fd);

	*totals = (struct ccbpf_totals){ 0 };
	if (err || *fd < 0)
		return err;
	err = totals_read(*fd, CCBPF_KIND_rx_le, totals);
	close(*fd);
	return err ? fail_errno(what, pin_path(shared_name(SHARED_TOTALS), NULL), err) : EXIT_OK;
}

static void count(struct exposition *out, const char *controller, uint64_t number)
{
	exposition_number(out, LABELS({ "controller", controller }), number);
}

static void counters(struct exposition *out, const struct ccbpf_stats *all,
		     const struct ccbpf_totals *downloads)
{
	const __u64 *received;

#define X(metric, help)                                                           \
	exposition_family(out, METRIC_COUNTER, "ccbpf_" #metric, help);           \
	for (unsigned int i = 0; i < n_controllers; i++)                          \
		count(out, controllers[i].name, all[controllers[i].kind].metric); \
	received = of_downloads(downloads, all, #metric);                         \
	if (received)                                                             \
		count(out, CCBPF_RECEIVER, *received);
	CCBPF_STATS(X)
#undef X
}

int metrics_controllers(const char *what, struct exposition *out)
{
	struct ccbpf_stats all[CCBPF_KINDS];
	struct ccbpf_totals downloads;
	int stats, totals, err = enabled(what, out);

	if (!err)
		err = stats_of_all(what, all, &stats);
	if (!err)
		err = downloads_read(what, &downloads, &totals);
	if (!err && (stats >= 0 || totals >= 0))
		counters(out, all, &downloads);
	return err;
}
