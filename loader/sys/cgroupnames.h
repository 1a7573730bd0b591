/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The paths of many cgroups, by a walk over the hierarchy. Every process may read it, whereas
 * cgroup_path() needs cap_dac_read_search. The walk ends after CGROUP_WALK_MOST_NS: some ten thousand
 * cgroups.
 */
#ifndef CCBPF_CGROUPNAMES_H
#define CCBPF_CGROUPNAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_WALK_MOST_NS 200000000ull

struct cgroup_name {
	uint64_t id;
	const char *path; /* as of cgroup_path(), a text(); NULL: it was not found */
};

/*
 * Find the paths of these, which become sorted by id, without repeats: `*n` of them. Returns
 * whether the walk saw the whole hierarchy: then a cgroup that was not found is gone.
 */
bool cgroup_names_find(struct cgroup_name *names, size_t *n);

/* Its path, or NULL. */
const char *cgroup_name_of(const struct cgroup_name *names, size_t n, uint64_t id);

#endif
