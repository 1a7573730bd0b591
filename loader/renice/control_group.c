// SPDX-License-Identifier: GPL-2.0-only
/* Control groups of version 2: see control_group.h. */
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "out/errors.h"
#include "renice/control_group.h"
#include "util/memory.h"
#include "util/text.h"

#define UNIT "unit:"
#define UNIT_SUFFIX ".service" /* as systemctl completes a name */

/* Where the hierarchy is mounted, or NULL. The first mount, as the kernel lists them. */
static const char *mount_point(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	const char *path = NULL;
	struct mntent *entry;

	while (mounts && !path && (entry = getmntent(mounts)))
		if (strcmp(entry->mnt_type, "cgroup2") == 0)
			path = text("%s", entry->mnt_dir);
	if (mounts)
		endmntent(mounts);
	return path;
}

/* The id of the cgroup at a path. Returns 0 or -errno. */
static int id_of(const char *path, uint64_t *id)
{
	struct statfs fs;
	struct stat st;

	if (statfs(path, &fs) || stat(path, &st))
		return -errno;
	if (fs.f_type != CGROUP2_SUPER_MAGIC || !S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*id = st.st_ino;
	return 0;
}

/*
 * Search the hierarchy for the directory of a unit. Returns the number of those that were
 * found, two at the most, with their paths.
 */
static unsigned int search(const char *root, const char *unit, const char *paths[2])
{
	char *roots[] = { (char *)root, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	unsigned int n = 0;
	FTSENT *entry;

	while (tree && n < 2 && (entry = fts_read(tree))) {
		if (entry->fts_info != FTS_D || strcmp(entry->fts_name, unit))
			continue;
		paths[n++] = text("%s", entry->fts_path);
		fts_set(tree, entry, FTS_SKIP);
	}
	if (tree)
		fts_close(tree);
	return n;
}

static int find_unit(const char *what, const char *option, const char *root, const char *name,
		     uint64_t *id)
{
	const char *unit = strchr(name, '.') ? name : text("%s" UNIT_SUFFIX, name), *paths[2];
	unsigned int n = 0;

	if (*name && strlen(name) <= NAME_MAX && !strchr(name, '/'))
		n = search(root, unit, paths);
	if (n == 1 && id_of(paths[0], id) == 0)
		return EXIT_OK;
	if (n == 2)
		return FAIL(EXIT_USAGE, .what = what, .on = text("%s %s", option, name),
			    .why = text("several units have this name: %s, %s", paths[0], paths[1]),
			    .remedy = "give the path of one");
	return FAIL(EXIT_FAILED, .what = what, .on = text("%s " UNIT "%s", option, name),
		    .why = "no running unit has this name",
		    .remedy = "`systemctl` lists the units, `systemd-cgls` their cgroups");
}

/* Below the root of the hierarchy, wherever that is mounted. */
static int find_path(const char *what, const char *option, const char *root, const char *name,
		     uint64_t *id)
{
	size_t length = strlen(root), size = length + strlen(name) + 2;
	bool is_whole = !strncmp(name, root, length) && (!name[length] || name[length] == '/');
	char *path = must_alloc(1, size);
	int err;

	snprintf(path, size, "%s%s%s", is_whole ? "" : root, is_whole ? "" : "/", name);
	err = id_of(path, id);
	free(path);
	if (!err)
		return EXIT_OK;
	return FAIL(EXIT_FAILED, .what = what, .on = text("%s %s", option, name),
		    .why = err == -ENOTDIR ? "this is not a cgroup of version 2"
					   : text("%s, below %s", strerror(-err), root),
		    .remedy = "`systemd-cgls` or /proc/PID/cgroup show the paths");
}

int control_group_find(const char *what, const char *option, const char *name, uint64_t *id)
{
	const char *root = mount_point();

	if (!root)
		return FAIL(EXIT_KERNEL, .what = what, .on = option,
			    .why = "no cgroup hierarchy of version 2 is mounted",
			    .remedy = "`mount -t cgroup2 none /sys/fs/cgroup`");
	if (strncmp(name, UNIT, strlen(UNIT)) == 0)
		return find_unit(what, option, root, name + strlen(UNIT), id);
	return find_path(what, option, root, name, id);
}
