// SPDX-License-Identifier: GPL-2.0-only
/* Search for control groups by their names: see cgroup.h. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "sys/cgroup.h"
#include "util/text.h"

/* The id may be cut short, so more of its digits may follow it; a pod's id has dashes as well. */
#define ID_DIGITS "0123456789abcdefABCDEF-_"

static bool ends_with(const char *word, size_t length, const char *end)
{
	size_t most = strlen(end);

	return length >= most && !strncmp(word + length - most, end, most);
}

/* What stands before an id. The process that watches a container has a cgroup of its own. */
static bool is_before_id(const char *name, size_t length)
{
	if (ends_with(name, length, "conmon-"))
		return false;
	return !length || ends_with(name, length, "-") || ends_with(name, length, "pod") ||
	       ends_with(name, length, "pod_");
}

static bool is_behind_id(const char *rest)
{
	rest += strspn(rest, ID_DIGITS);
	return !*rest || !strcmp(rest, ".scope") || !strcmp(rest, ".slice");
}

static bool has_id(const char *name, const char *id)
{
	for (const char *at = strstr(name, id); at; at = strstr(at + 1, id))
		if (is_before_id(name, at - name) && is_behind_id(at + strlen(id)))
			return true;
	return false;
}

static bool is_called(const char *name, const char *wanted)
{
	return !strcmp(name, wanted);
}

/* Depth first, from the cgroup behind `dir`, which has this path. */
struct search {
	const char *name;
	bool (*matches)(const char *name, const char *wanted);
	const char **paths; /* of the first two that were found */
	unsigned int n;
};

static void find_below(int dir, const char *path, struct search *search, int depth)
{
	int copy = depth < CGROUP_DEEPEST ? openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
					  : -1;
	DIR *open = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	while (open && search->n < 2 && (entry = readdir(open))) {
		const char *name = entry->d_name, *below;
		int child;

		if (entry->d_type != DT_DIR || *name == '.')
			continue;
		below = text("%s/%s", path, name);
		if (search->matches(name, search->name)) {
			search->paths[search->n++] = below; /* what is below it belongs to it */
			continue;
		}
		child = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (child < 0)
			continue;
		find_below(child, below, search, depth + 1);
		close(child);
	}
	if (open)
		closedir(open);
}

static unsigned int find(struct search *search)
{
	int dir = cgroup_open("/");

	if (dir < 0)
		return 0;
	find_below(dir, "", search, 0);
	close(dir);
	return search->n;
}

unsigned int cgroup_find(const char *name, const char *paths[2])
{
	return find(&(struct search){ .name = name, .matches = is_called, .paths = paths });
}

unsigned int cgroup_find_id(const char *id, const char *paths[2])
{
	return find(&(struct search){ .name = id, .matches = has_id, .paths = paths });
}
