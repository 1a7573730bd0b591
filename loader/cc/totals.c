// SPDX-License-Identifier: GPL-2.0-only
/* The totals of controllers: see totals.h. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cc/totals.h"
#include "util/memory.h"

int totals_read(int fd, const struct controller *c, struct ccbpf_totals *sum)
{
	int cpus = libbpf_num_possible_cpus();
	__u32 key = c->kind;
	struct ccbpf_totals *each;
	int err;

	memset(sum, 0, sizeof(*sum));
	if (cpus < 0)
		return cpus;
	each = must_alloc(cpus, sizeof(*each));
	err = bpf_map_lookup_elem(fd, &key, each) ? -errno : 0;
	for (int i = 0; !err && i < cpus; i++) {
#define X(name, text) sum->name += each[i].name;
		CCBPF_TOTALS(X)
#undef X
	}
	free(each);
	return err;
}

/* An element that is deleted meanwhile may start the walk anew: bounded by twice the map's size. */
int units_totals_read(int fd, struct unit_total **units, size_t *n)
{
	struct ccbpf_unit_key key, *previous = NULL;

	*units = must_alloc(2 * CCBPF_UNITS_MOST, sizeof(**units));
	*n = 0;
	while (*n < 2 * CCBPF_UNITS_MOST && !bpf_map_get_next_key(fd, previous, &key)) {
		struct unit_total *unit = &(*units)[*n];

		previous = &key;
		unit->key = key;
		if (!bpf_map_lookup_elem(fd, &key, &unit->totals))
			++*n;
	}
	return 0;
}
