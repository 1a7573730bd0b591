/* SPDX-License-Identifier: GPL-2.0-only */
/* The statistics of a controller. */
#ifndef CCBPF_STATS_LOADER_H
#define CCBPF_STATS_LOADER_H

#include <json-c/json.h>

#include "cc/controllers.h"
#include "ccbpf/stats.h"

/* Sum a controller's statistics over the CPUs. Returns 0 or -errno. */
int stats_read(int fd, __u32 kind, struct ccbpf_stats *sum);

/* {"flows_opened": n, …} */
struct json_object *stats_json(const struct ccbpf_stats *stats);

#endif
