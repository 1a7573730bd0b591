// SPDX-License-Identifier: GPL-2.0-only
/* The statistics of a controller: see stats.h. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cc/stats.h"
#include "out/json.h"
#include "util/memory.h"

int stats_read(int fd, const struct controller *c, struct ccbpf_stats *sum)
{
	int cpus = libbpf_num_possible_cpus();
	__u32 key = c->kind;
	struct ccbpf_stats *each;
	int err;

	memset(sum, 0, sizeof(*sum));
	if (cpus < 0)
		return cpus;
	each = must_alloc(cpus, sizeof(*each));
	err = bpf_map_lookup_elem(fd, &key, each) ? -errno : 0;
	for (int i = 0; !err && i < cpus; i++) {
#define X(name, text) sum->name += each[i].name;
		CCBPF_STATS(X)
#undef X
	}
	free(each);
	return err;
}

struct json_object *stats_json(const struct ccbpf_stats *stats)
{
	struct json_object *doc = json_object_new_object();

#define X(name, text) add_number(doc, #name, stats->name);
	CCBPF_STATS(X)
#undef X
	return doc;
}
