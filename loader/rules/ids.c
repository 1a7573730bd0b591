// SPDX-License-Identifier: GPL-2.0-only
/* What tells a rule from others: see ids.h. */
#include <stdbool.h>

#include "rules/ids.h"
#include "util/clock.h"

/* The next id that no rule has: after 2^32 - 1 follows 1. */
static __u32 take_id(struct standing *standing)
{
	__u32 id = standing->next ?: 1;

	while (standing_rule(standing, id))
		id = id + 1 ?: 1;
	standing->next = id + 1;
	return id;
}

static bool is_taken(const struct standing *standing, __u64 made_ns)
{
	for (unsigned int i = 0; i < standing->n; i++)
		if (standing->rules[i].made_ns == made_ns)
			return true;
	return false;
}

/* Now, or the next instant that no rule has. */
static __u64 take_time(const struct standing *standing)
{
	__u64 made_ns = monotonic_ns();

	while (is_taken(standing, made_ns))
		made_ns++;
	return made_ns;
}

void ids_give(struct standing *standing, struct ccbpf_rule *rule)
{
	rule->id = take_id(standing);
	rule->made_ns = take_time(standing);
}
