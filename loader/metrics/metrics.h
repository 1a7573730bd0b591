/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `ccbpf metrics` shows, one file for each part. A counter never falls while the map
 * behind it lives: it is kept by the kernel side, and flows that end stay in it. What is
 * summed over the flows of this instant may fall; it is a gauge, and its name says `live`.
 */
#ifndef CCBPF_METRICS_H
#define CCBPF_METRICS_H

#include "metrics/exposition.h"
#include "metrics/live.h"
#include "rules/origins.h"

/*
 * Each needs a lock, and writes nothing but headings where nothing is pinned. Returns EXIT_OK,
 * or the exit code after saying what could not be read.
 */
int metrics_controllers(const char *what, struct exposition *out);
int metrics_totals(const char *what, struct exposition *out);
int metrics_units(const char *what, const struct live *live, struct exposition *out);
void metrics_flows(const struct live *live, struct exposition *out);
int metrics_rules(const char *what, const struct live *live, const struct origins *origins,
		  struct exposition *out);
int metrics_runs(const char *what, struct exposition *out);
int metrics_queues(const char *what, struct exposition *out);

/*
 * All of them, by units only if `units`, as one text of `*size` bytes, which is to be freed, also
 * after a failure. It takes the lock. Returns EXIT_OK, or the exit code after saying what could not be read.
 */
int metrics_page(const char *what, bool openmetrics, bool units, char **page, size_t *size);

#endif
