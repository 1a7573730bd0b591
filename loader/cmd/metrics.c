// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf metrics [--format FORMAT] [--output FILE]: counters and gauges of the controllers,
 * rules, runs and queues as text, for Prometheus. FILE is written beside itself and renamed,
 * so that a reader never sees half of it.
 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "metrics/metrics.h"
#include "out/errors.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/file.h"
#include "util/memory.h"
#include "util/text.h"

#define WHAT "metrics"

enum own_option {
	OWN_FORMAT,
	OWN_OUTPUT,
};

static int parse_format(const char *given, bool *openmetrics)
{
	*openmetrics = given && !strcmp(given, "openmetrics");
	if (!given || *openmetrics || !strcmp(given, "prometheus"))
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = WHAT, .on = text("--format %s", given),
		    .why = "there is no such format", .remedy = "prometheus or openmetrics");
}

static int gather(struct exposition *out)
{
	bool exists;
	int err = pins_lock_read(WHAT, &exists);

	if (err)
		return err;
	exposition_family(out, METRIC_INFO, "ccbpf_build", "the version of ccbpf");
	exposition_number(out, LABELS({ "version", CCBPF_VERSION }), 1);
	err = metrics_controllers(WHAT, out);
	if (!err && exists)
		err = metrics_flows(WHAT, out);
	if (!err && exists)
		err = metrics_rules(WHAT, out);
	if (!err && exists)
		err = metrics_runs(WHAT, out);
	if (!err && exists)
		err = metrics_queues(WHAT, out);
	pins_unlock();
	exposition_end(out);
	return err;
}

static int metrics(const struct request *request)
{
	const char *path = request->own[OWN_OUTPUT];
	struct exposition out = { 0 };
	char *page = NULL;
	size_t size;
	int err = request_no_args(request);

	if (!err)
		err = parse_format(request->own[OWN_FORMAT], &out.openmetrics);
	if (!err)
		err = kernel_require_reading(WHAT);
	if (err)
		return err;
	out.to = open_memstream(&page, &size); /* nobody waits for our reader with the lock held */
	if (!out.to)
		out_of_memory();
	err = gather(&out);
	if (fclose(out.to))
		out_of_memory();
	if (!err && !path)
		fwrite(page, 1, size, stdout);
	if (!err && path) {
		err = replace_file(path, page, size);
		err = err ? fail_errno(WHAT, path, err) : EXIT_OK;
	}
	free(page);
	return err;
}

static const struct argp_option options[] = {
	{ "format", OPTION_OWN + OWN_FORMAT, "FORMAT", 0,
	  "prometheus (text 0.0.4, the default: also for node_exporter) or openmetrics", 0 },
	{ "output", OPTION_OWN + OWN_OUTPUT, "FILE", 0, "write FILE in one step, by rename", 0 },
	{ 0 },
};

const struct command cmd_metrics = {
	.name = "metrics",
	.args = "[--output FILE]",
	.text = "Print counters for Prometheus",
	.more = "Names with `live` are sums over the flows of this instant: gauges. All that ends with `_total` also has the flows "
		"that have ended.",
	.options = options,
	.run = metrics,
};
