// SPDX-License-Identifier: GPL-2.0-only
/* Control groups of version 2: see control_group.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "renice/control_group.h"
#include "sys/cgroup.h"
#include "sys/cgroupword.h"
#include "util/text.h"

static int find_unit(const char *what, const char *on, const char *unit, const char **path)
{
	const char *paths[2] = { 0 };
	unsigned int n = cgroup_find(unit, paths);

	*path = paths[0];
	if (n == 1)
		return EXIT_OK;
	if (n == 2)
		return FAIL(EXIT_USAGE, .what = what, .on = on,
			    .why = text("several units have this name: %s, %s", paths[0], paths[1]),
			    .remedy = "give the path of one");
	return FAIL(EXIT_FAILED, .what = what, .on = on, .why = "no running unit has this name",
		    .remedy = "`systemctl` lists the units, `systemd-cgls` their cgroups");
}

/* From the root of the hierarchy; what lies above that is where it is mounted. */
static const char *below_mount(const char *name)
{
	const char *mount = cgroup_mount();
	size_t length = strlen(mount);
	bool is_whole = length && !strncmp(name, mount, length) &&
			(!name[length] || name[length] == '/');

	return is_whole ? name + length : name;
}

int control_group_find(const char *what, const char *option, const char *name, uint64_t *id)
{
	const char *on = text("%s %s", option, name), *path = NULL;
	struct cgroup_word word;
	int fd, err = cgroup_require(what, option);

	if (!err)
		err = cgroup_word_parse(what, option, name, &word);
	if (!err && word.unit)
		err = find_unit(what, on, word.unit, &path);
	else if (!err)
		path = word.path ?: below_mount(name);
	if (err)
		return err;
	fd = cgroup_open(path);
	*id = fd < 0 ? 0 : cgroup_id(fd);
	if (fd >= 0)
		close(fd);
	if (*id)
		return EXIT_OK;
	return FAIL(EXIT_FAILED, .what = what, .on = on,
		    .why = fd >= 0 || fd == -ENOTDIR
				   ? "this is not a cgroup of version 2"
				   : text("%s, below %s", strerror(-fd), cgroup_mount()),
		    .remedy = "`systemd-cgls` or /proc/PID/cgroup show the paths");
}
