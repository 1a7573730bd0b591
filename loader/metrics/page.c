// SPDX-License-Identifier: GPL-2.0-only
/* The page as a whole: see metrics.h. */
#include <stdlib.h>

#include "metrics/metrics.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "util/memory.h"

static int gather_pinned(const char *what, bool units, struct exposition *out)
{
	struct origins origins = { 0 };
	struct live live;
	int err = live_read(what, &live);

	if (!err)
		origins_read(&origins);
	if (!err)
		err = metrics_totals(what, out);
	if (!err && units)
		err = metrics_units(what, &live, out);
	if (!err) {
		metrics_flows(&live, out);
		err = metrics_rules(what, &live, &origins, out);
	}
	if (!err)
		err = metrics_runs(what, out);
	if (!err)
		err = metrics_queues(what, out);
	live_free(&live);
	origins_free(&origins);
	return err;
}

static int gather(const char *what, bool units, struct exposition *out)
{
	bool exists;
	int err = pins_lock_read(what, &exists);

	if (err)
		return err;
	exposition_family(out, METRIC_INFO, "ccbpf_build", "the version of ccbpf");
	exposition_number(out, LABELS({ "version", CCBPF_VERSION }), 1);
	err = metrics_controllers(what, out);
	if (!err && exists)
		err = gather_pinned(what, units, out);
	pins_unlock();
	exposition_end(out);
	return err;
}

int metrics_page(const char *what, bool openmetrics, bool units, char **page, size_t *size)
{
	struct exposition out = { .openmetrics = openmetrics };
	int err;

	*page = NULL;
	out.to = open_memstream(page, size); /* nobody waits for a reader with the lock held */
	if (!out.to)
		out_of_memory();
	err = gather(what, units, &out);
	if (fclose(out.to))
		out_of_memory();
	return err;
}
