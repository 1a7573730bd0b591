// SPDX-License-Identifier: GPL-2.0-only
/* Control groups: see cgroup.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/cgroup.h"
#include "sys/process.h"
#include "util/text.h"

#define MOVE_ROUNDS 100 /* a process may fork between two readings */
#define CALLERS_MOST 64

static int top_fd = -1; /* of the root of the hierarchy */
static bool top_outside; /* of this process's cgroup namespace: its own path says nothing there */

/* Is this the root of the hierarchy? Seen from a cgroup namespace that of the host is mounted as
 * "/..", "/../.." and so on; only the root itself has no cgroup.events. */
static bool is_root(const char *root, int fd)
{
	if (!strcmp(root, "/"))
		return true;
	return faccessat(fd, "cgroup.events", F_OK, 0) < 0 && errno == ENOENT;
}

/* The root of the hierarchy in the mounts of a process, or -ENOENT. */
static int open_mounted(pid_t pid)
{
	char line[2 * PATH_MAX], root[PATH_MAX], point[PATH_MAX], path[PATH_MAX + 32];
	FILE *mounts = fopen(text("/proc/%d/mountinfo", pid), "re");
	int fd = -ENOENT;

	while (mounts && fd < 0 && fgets(line, sizeof(line), mounts)) {
		const char *type = strstr(line, " - ");

		if (!type || strncmp(type, " - cgroup2 ", 11) ||
		    sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
		    strspn(root, "/.") != strlen(root))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, point);
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && !is_root(root, fd)) {
			close(fd);
			fd = -ENOENT;
		}
		top_outside = fd >= 0 && root[1];
	}
	if (mounts)
		fclose(mounts);
	return fd;
}

int cgroup_reach(void)
{
	pid_t pid = getpid();

	for (int i = 0; top_fd < 0 && pid > 0 && i < CALLERS_MOST; i++) {
		top_fd = open_mounted(pid);
		pid = process_parent(pid);
	}
	return top_fd < 0 ? -ENOENT : 0;
}

int cgroup_require(const char *what, const char *on)
{
	if (!cgroup_reach())
		return EXIT_OK;
	return FAIL(EXIT_KERNEL, .what = what, .on = on,
		    .why = "the cgroup v2 file system is not mounted",
		    .remedy = "`mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified`, or boot with "
			      "systemd.unified_cgroup_hierarchy=1");
}

/* The path of what a descriptor is open on, a text(). */
static const char *path_behind(int fd)
{
	char path[PATH_MAX];
	ssize_t length = readlink(text("/proc/self/fd/%d", fd), path, sizeof(path));

	return text("%.*s", length < 0 ? 0 : (int)length, path);
}

const char *cgroup_mount(void)
{
	return cgroup_reach() ? "" : path_behind(top_fd);
}

/* As openat() takes it, from the root of the hierarchy. */
static const char *below_top(const char *path)
{
	while (*path == '/')
		path++;
	return *path ? path : ".";
}

int cgroup_own(char *path, unsigned int size)
{
	char line[PATH_MAX];
	FILE *file = top_outside ? NULL : fopen("/proc/self/cgroup", "re");
	int err = file ? -ENOENT : top_outside ? -EOPNOTSUPP : -errno;

	while (file && err == -ENOENT && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::/", 4))
			continue;
		err = strlen(line + 3) < size ? 0 : -ENAMETOOLONG;
		snprintf(path, size, "%s", line + 3);
	}
	if (file)
		fclose(file);
	return err;
}

/* The first line of a file of a cgroup. Returns 0 or -errno. */
static int read_file(const char *path, const char *file, char *line, unsigned int size)
{
	int dir = cgroup_open(path), fd;
	ssize_t length;

	if (dir < 0)
		return dir;
	fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -errno : read(fd, line, size - 1);
	close(dir);
	if (fd >= 0)
		close(fd);
	if (length < 0)
		return length;
	line[length] = '\0';
	return 0;
}

/* Whether an ordinary child can be made; the root has no type. */
static bool can_have_child(const char *path)
{
	char type[64];
	int err = read_file(path, "cgroup.type", type, sizeof(type));

	return err ? err == -ENOENT && !strcmp(path, "/") : !strncmp(type, "domain\n", 7);
}

int cgroup_parent_for_child(char *path, unsigned int size)
{
	int err = cgroup_reach();

	if (!err)
		err = cgroup_own(path, size);
	while (!err && !can_have_child(path)) {
		char *slash = strrchr(path, '/');

		if (path[1] == '\0')
			return -EOPNOTSUPP;
		slash[slash == path] = '\0';
	}
	return err;
}

int cgroup_make(const char *path)
{
	return mkdirat(top_fd, below_top(path), 0755) ? -errno : 0;
}

int cgroup_open(const char *path)
{
	int fd, err = cgroup_reach();

	if (err)
		return err;
	fd = openat(top_fd, below_top(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

uint64_t cgroup_id(int fd)
{
	struct statfs fs;
	struct stat st;
	bool good = !fstatfs(fd, &fs) && fs.f_type == CGROUP2_SUPER_MAGIC && !fstat(fd, &st);

	return good ? st.st_ino : 0;
}

/* The kernel opens what an id names in a handle of this form, by itself. */
#define HANDLE_KERNFS 0xfe /* FILEID_KERNFS, include/linux/exportfs.h */

int cgroup_path(uint64_t id, char *path, unsigned int size)
{
	struct {
		struct file_handle head;
		uint64_t id;
	} handle = { .head = { .handle_bytes = sizeof(id), .handle_type = HANDLE_KERNFS } };
	int top = cgroup_open("/"), fd, err = 0;
	const char *found, *mount;

	if (top < 0)
		return top;
	memcpy(handle.head.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(top, &handle.head, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
	} else {
		found = path_behind(fd);
		mount = path_behind(top);
		found += strncmp(found, mount, strlen(mount)) ? 0 : strlen(mount);
		if ((unsigned int)snprintf(path, size, "%s", *found ? found : "/") >= size)
			err = -ENAMETOOLONG;
		close(fd);
	}
	close(top);
	return err;
}

bool cgroup_removed(int err)
{
	return err == -ESTALE;
}

bool cgroup_populated(const char *path)
{
	char events[256];

	return !read_file(path, "cgroup.events", events, sizeof(events)) &&
	       strstr(events, "populated 1");
}

/* The processes in the cgroup behind `dir`. */
static unsigned int processes_at(int dir, pid_t *pids, unsigned int most)
{
	int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC), pid;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	unsigned int n = 0;

	while (file && fscanf(file, "%d", &pid) == 1) {
		if (n < most)
			pids[n] = pid;
		n++;
	}
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	return n;
}

unsigned int cgroup_processes(const char *path, pid_t *pids, unsigned int most)
{
	int dir = cgroup_open(path);
	unsigned int n = dir < 0 ? 0 : processes_at(dir, pids, most);

	if (dir >= 0)
		close(dir);
	return n;
}

/* Do something to each cgroup below `dir`, and then to `dir`. */
struct walk {
	int to; /* cgroup.procs of where processes go; -1: cgroups are removed */
	int err; /* the first */
};

static void move_processes(int dir, struct walk *walk)
{
	pid_t pids[64];
	unsigned int n = processes_at(dir, pids, 64);

	for (unsigned int i = 0; i < n && i < 64; i++)
		if (dprintf(walk->to, "%d\n", pids[i]) < 0 && errno != ESRCH && !walk->err)
			walk->err = -errno;
}

static void walk_below(int dir, struct walk *walk, int depth)
{
	int copy = depth < CGROUP_DEEPEST ? openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
					  : -1;
	DIR *open = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	while (open && (entry = readdir(open))) {
		int child;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		child = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (child < 0)
			continue;
		walk_below(child, walk, depth + 1);
		close(child);
		if (walk->to < 0 && unlinkat(dir, entry->d_name, AT_REMOVEDIR) && !walk->err)
			walk->err = -errno;
	}
	if (open)
		closedir(open);
	if (walk->to >= 0)
		move_processes(dir, walk);
}

int cgroup_move(const char *from, const char *to)
{
	int dir = cgroup_open(from), into = cgroup_open(to), err;
	struct walk walk = { .to = -1 };

	if (into >= 0)
		walk.to = openat(into, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	err = dir < 0 ? dir : walk.to < 0 ? -errno : 0;
	for (int i = 0; !err && i < MOVE_ROUNDS && cgroup_populated(from); i++) {
		walk_below(dir, &walk, 0);
		err = walk.err;
	}
	if (!err && cgroup_populated(from))
		err = -EBUSY;
	if (walk.to >= 0)
		close(walk.to);
	if (into >= 0)
		close(into);
	if (dir >= 0)
		close(dir);
	return err;
}

int cgroup_remove(const char *path)
{
	struct walk walk = { .to = -1 };
	int dir = cgroup_open(path);

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	if (!cgroup_populated(path))
		walk_below(dir, &walk, 0);
	close(dir);
	if (unlinkat(top_fd, below_top(path), AT_REMOVEDIR) && errno != ENOENT)
		return -errno;
	return 0;
}
