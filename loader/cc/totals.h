/* SPDX-License-Identifier: GPL-2.0-only */
/* What the flows of a controller have done, those that have ended included. */
#ifndef CCBPF_TOTALS_LOADER_H
#define CCBPF_TOTALS_LOADER_H

#include <stdbool.h>
#include <stddef.h>

#include "cc/controllers.h"
#include "ccbpf/stats.h"

/* Sum a controller's totals over the CPUs. Returns 0 or -errno. */
int totals_read(int fd, const struct controller *c, struct ccbpf_totals *sum);

/* Of the sockets of one cgroup. */
struct unit_total {
	struct ccbpf_unit_key key;
	struct ccbpf_totals totals;
	const char *name; /* for the reader's use */
};

/* Of the flows of a kind to which the rule that was made then gave the controller. Returns whether there were any. */
bool rule_totals_read(int fd, __u64 made_ns, __u32 kind, struct ccbpf_totals *totals);

/* Of all its flows, whatever controller it gave them; zeroes where there were none. */
struct ccbpf_totals rule_totals_of_all(int fd, __u64 made_ns);

/* All that the map behind `fd` has, into memory to be freed. */
void units_totals_read(int fd, struct unit_total **units, size_t *n);

#endif
