// SPDX-License-Identifier: GPL-2.0-only
/* The totals: see totals.h. */
#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "cc/controllers.h"
#include "cc/totals.h"
#include "sys/percpu.h"
#include "util/memory.h"

int totals_read(int fd, uint32_t kind, struct ccbpf_totals *sum)
{
	return percpu_sum(fd, kind, sum, sizeof(*sum));
}

bool rule_totals_read(int fd, __u64 made_ns, __u32 kind, struct ccbpf_totals *totals)
{
	const struct ccbpf_ruled_key key = { .rule = made_ns, .kind = kind };

	return !bpf_map_lookup_elem(fd, &key, totals);
}

struct ccbpf_totals rule_totals_sent(int fd, __u64 made_ns)
{
	struct ccbpf_totals sum = { 0 }, of_kind;

	for_each_controller (c) {
		if (!rule_totals_read(fd, made_ns, c->kind, &of_kind))
			continue;
#define X(name, text) sum.name += of_kind.name;
		CCBPF_TOTALS(X)
#undef X
	}
	return sum;
}

static int by_key(const void *a, const void *b)
{
	const struct unit_total *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* Sorted by key; of equal ones only one stays. */
static size_t without_repeats(struct unit_total *units, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(units, n, sizeof(*units), by_key);
	for (size_t i = 0; i < n; i++)
		if (!kept || by_key(&units[kept - 1], &units[i]))
			units[kept++] = units[i];
	return kept;
}

/* If the kernel forgets an element meanwhile, the walk begins anew, and meets others twice. It is
 * bounded by twice the map's size. */
void units_totals_read(int fd, struct unit_total **units, size_t *n)
{
	struct ccbpf_unit_key key, *previous = NULL;
	size_t found = 0;

	*units = must_alloc(2 * CCBPF_UNITS_MOST, sizeof(**units));
	for (int i = 0; i < 2 * CCBPF_UNITS_MOST; i++) {
		struct unit_total *unit = &(*units)[found];

		if (bpf_map_get_next_key(fd, previous, &key))
			break;
		previous = &key;
		unit->key = key;
		found += !bpf_map_lookup_elem(fd, &key, &unit->totals);
	}
	*n = without_repeats(*units, found);
}
