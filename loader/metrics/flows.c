// SPDX-License-Identifier: GPL-2.0-only
/* The flows of this instant by controller, with the downloads. */
#include <stdlib.h>

#include "metrics/metrics.h"
#include "util/memory.h"

static uint64_t all_are_one(const void *data, const struct flow *flow)
{
	(void)data;
	(void)flow;
	return 1;
}

/* Also of those that have no flow. */
void metrics_flows(const struct live *live, struct exposition *out)
{
	static const struct live_sums none;
	struct live_groups groups;
	struct live_series *series;
	size_t n = 0;

	if (!live->known)
		return;
	groups = live_by(live, all_are_one, NULL);
	series = must_alloc(n_flow_kinds, sizeof(*series));
	for_each_flow_kind(k)
	{
		const struct live_group *group = live_group_of(&groups, 1, k->kind);

		series[n].labels[0] = (struct label){ "controller", k->name };
		series[n++].sums = group ? &group->sums : &none;
	}
	live_print(out, "ccbpf_live_", series, n,
		   LIVE_FLOWS | LIVE_CARRIED | LIVE_PHASES | LIVE_YIELDING | LIVE_DELAYS_FOUND);
	free(series);
	live_groups_free(&groups);
}
