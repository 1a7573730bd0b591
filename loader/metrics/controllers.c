// SPDX-License-Identifier: GPL-2.0-only
/* The controllers: which are enabled, and the counters of the map `stats`. */
#include <string.h>
#include <unistd.h>

#include "cc/running.h"
#include "sys/shared.h"
#include "cc/stats.h"
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

static void counters(struct exposition *out, const struct ccbpf_stats *all)
{
#define X(count, help)                                                 \
	exposition_family(out, METRIC_COUNTER, "ccbpf_" #count, help); \
	for (unsigned int i = 0; i < n_controllers; i++)               \
		exposition_number(out, LABELS({ "controller", controllers[i].name }), all[i].count);
	CCBPF_STATS(X)
#undef X
}

int metrics_controllers(const char *what, struct exposition *out)
{
	struct ccbpf_stats all[CCBPF_KINDS];
	int fd, err = enabled(what, out);

	if (!err)
		err = shared_open(what, SHARED_STATS, &fd);
	if (err || fd < 0)
		return err;
	for (unsigned int i = 0; !err && i < n_controllers; i++)
		err = stats_read(fd, controllers[i].kind, &all[i]);
	close(fd);
	if (err)
		return fail_errno(what, pin_path(shared_name(SHARED_STATS), NULL), err);
	counters(out, all);
	return EXIT_OK;
}
