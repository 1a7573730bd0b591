// SPDX-License-Identifier: GPL-2.0-only
/* The page as a whole: see metrics.h. */
#include <stdlib.h>

#include "metrics/metrics.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "util/memory.h"

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
		err = metrics_totals(what, out);
	if (!err && exists && units)
		err = metrics_units(what, out);
	if (!err && exists)
		err = metrics_flows(what, out);
	if (!err && exists)
		err = metrics_rules(what, out);
	if (!err && exists)
		err = metrics_runs(what, out);
	if (!err && exists)
		err = metrics_queues(what, out);
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
