// SPDX-License-Identifier: GPL-2.0-only
/* Control groups of version 2: see control_group.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "renice/control_group.h"
#include "sys/cgroup.h"
#include "sys/unit.h"
#include "util/text.h"

#define UNIT "unit:"
#define UNIT_SUFFIX ".service"

static int find_unit(const char *what, const char *option, const char *name, const char **path)
{
	const char *unit = unit_name(name, UNIT_SUFFIX), *paths[2] = { 0 };
	unsigned int n = unit ? cgroup_find(unit, paths) : 0;

	*path = paths[0];
	if (n == 1)
		return EXIT_OK;
	if (n == 2)
		return FAIL(EXIT_USAGE, .what = what, .on = text("%s %s", option, name),
			    .why = text("several units have this name: %s, %s", paths[0], paths[1]),
			    .remedy = "give the path of one");
	return FAIL(EXIT_FAILED, .what = what, .on = text("%s " UNIT "%s", option, name),
		    .why = "no running unit has this name",
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
	const char *path = name;
	int fd, err = cgroup_require(what, option);

	if (!err && strncmp(name, UNIT, strlen(UNIT)) == 0)
		err = find_unit(what, option, name + strlen(UNIT), &path);
	else if (!err)
		path = below_mount(name);
	if (err)
		return err;
	fd = cgroup_open(path);
	*id = fd < 0 ? 0 : cgroup_id(fd);
	if (fd >= 0)
		close(fd);
	if (*id)
		return EXIT_OK;
	return FAIL(EXIT_FAILED, .what = what, .on = text("%s %s", option, name),
		    .why = fd >= 0 || fd == -ENOTDIR
				   ? "this is not a cgroup of version 2"
				   : text("%s, below %s", strerror(-fd), cgroup_mount()),
		    .remedy = "`systemd-cgls` or /proc/PID/cgroup show the paths");
}
