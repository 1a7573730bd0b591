// SPDX-License-Identifier: GPL-2.0-only
/* The statistics of a controller: see stats.h. */
#include "cc/stats.h"
#include "out/json.h"
#include "sys/percpu.h"

int stats_read(int fd, __u32 kind, struct ccbpf_stats *sum)
{
	return percpu_sum(fd, kind, sum, sizeof(*sum));
}

struct json_object *stats_json(const struct ccbpf_stats *stats)
{
	struct json_object *doc = json_object_new_object();

#define X(name, text) add_number(doc, #name, stats->name);
	CCBPF_STATS(X)
#undef X
	return doc;
}
