/* SPDX-License-Identifier: GPL-2.0-only */
/* What the flows of a controller, or downloads, have done, those that have ended included. */
#ifndef CCBPF_TOTALS_LOADER_H
#define CCBPF_TOTALS_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ccbpf/stats.h"

/* Sum those of a kind over the CPUs. Returns 0 or -errno. */
int totals_read(int fd, uint32_t kind, struct ccbpf_totals *sum);

/* Of the sockets of one cgroup. */
struct unit_total {
	struct ccbpf_unit_key key;
	struct ccbpf_totals totals;
	const char *name; /* for the reader's use */
};

/* Of the flows of a kind that came by the rule that was made then. Returns whether there were any. */
bool rule_totals_read(int fd, __u64 made_ns, __u32 kind, struct ccbpf_totals *totals);

/* Of all that it sent, whatever the controller; zeroes where there was nothing. */
struct ccbpf_totals rule_totals_sent(int fd, __u64 made_ns);

/* All that the map behind `fd` has, into memory to be freed. */
void units_totals_read(int fd, struct unit_total **units, size_t *n);

#endif
