// SPDX-License-Identifier: GPL-2.0-only
/* The paths of many cgroups: see cgroupnames.h. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/cgroup.h"
#include "sys/cgroupnames.h"
#include "util/clock.h"
#include "util/text.h"

#define DEEPEST 64 /* levels: as many descriptors are open */

struct walk {
	struct cgroup_name *names;
	size_t n, left; /* those that have no path yet */
	uint64_t until_ns;
	bool whole;
	char path[PATH_MAX]; /* of the cgroup that is looked at; "" is the root */
};

static int by_id(const void *a, const void *b)
{
	const struct cgroup_name *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static struct cgroup_name *find(struct cgroup_name *names, size_t n, uint64_t id)
{
	const struct cgroup_name key = { .id = id };

	return n ? bsearch(&key, names, n, sizeof(key), by_id) : NULL;
}

static void found(struct walk *walk, uint64_t id)
{
	struct cgroup_name *name = find(walk->names, walk->n, id);

	if (!name || name->path)
		return;
	name->path = text("%s", *walk->path ? walk->path : "/");
	walk->left--;
}

static void walk_below(struct walk *walk, int dir, int depth);

/* A cgroup with this name in the one that is looked at. */
static void visit(struct walk *walk, int dir, const char *name, uint64_t id, int depth)
{
	size_t length = strlen(walk->path);
	int child;

	if ((size_t)snprintf(walk->path + length, sizeof(walk->path) - length, "/%s", name) >=
	    sizeof(walk->path) - length) {
		walk->whole = false;
	} else {
		found(walk, id);
		child = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (child >= 0) /* else it was removed just now */
			walk_below(walk, child, depth + 1);
	}
	walk->path[length] = '\0';
}

/* Closes `dir`. */
static void walk_below(struct walk *walk, int dir, int depth)
{
	DIR *open = depth < DEEPEST && monotonic_ns() < walk->until_ns ? fdopendir(dir) : NULL;
	struct dirent *entry;

	if (!open) {
		walk->whole = false;
		close(dir);
		return;
	}
	while (walk->left && (entry = readdir(open))) {
		if (monotonic_ns() >= walk->until_ns) {
			walk->whole = false;
			break;
		}
		if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") &&
		    strcmp(entry->d_name, ".."))
			visit(walk, dir, entry->d_name, entry->d_ino, depth);
	}
	closedir(open);
}

static size_t sort(struct cgroup_name *names, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(names, n, sizeof(*names), by_id);
	for (size_t i = 0; i < n; i++)
		if (!kept || names[kept - 1].id != names[i].id)
			names[kept++] = names[i];
	return kept;
}

bool cgroup_names_find(struct cgroup_name *names, size_t *n)
{
	struct walk walk = { .names = names, .whole = true };
	int top = cgroup_open("/");

	walk.n = walk.left = *n = sort(names, *n);
	if (top < 0)
		return false;
	walk.until_ns = monotonic_ns() + CGROUP_WALK_MOST_NS;
	found(&walk, cgroup_id(top));
	walk_below(&walk, top, 0);
	return walk.whole;
}

const char *cgroup_name_of(const struct cgroup_name *names, size_t n, uint64_t id)
{
	const struct cgroup_name *name = find((struct cgroup_name *)names, n, id);

	return name ? name->path : NULL;
}
