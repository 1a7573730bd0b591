// SPDX-License-Identifier: GPL-2.0-only
/* The network namespaces of this system: see namespaces.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/namespaces.h"
#include "util/file.h"
#include "util/memory.h"
#include "util/text.h"

#define OWN_PATH "/proc/self/ns/net"
#define MOUNTS_PATH "/proc/self/mountinfo"
#define MOUNT_TYPE "nsfs"
#define MOUNT_ROOT "net:[" /* of a network namespace; other kinds are mounted as well */

/* Which namespaces were visited already. */
struct walk {
	int (*each)(void *data, const struct netns *netns);
	void *data;
	ino_t own, *seen;
	size_t n_seen;
	int err; /* ends the walk */
};

static bool is_seen(const struct walk *walk, ino_t inode)
{
	for (size_t i = 0; i < walk->n_seen; i++)
		if (walk->seen[i] == inode)
			return true;
	return false;
}

static void add_seen(struct walk *walk, ino_t inode)
{
	walk->seen = must_grow(walk->seen, (walk->n_seen + 1) * sizeof(*walk->seen));
	walk->seen[walk->n_seen++] = inode;
}

/* Whether there is a namespace at the path that was not visited yet. */
static bool find_new(const struct walk *walk, const char *path, struct netns *out)
{
	struct stat st;

	if (walk->err || stat(path, &st) || is_seen(walk, st.st_ino))
		return false;
	*out = (struct netns){ .inode = st.st_ino, .own = st.st_ino == walk->own };
	return true;
}

/* The thread whose namespace it was may have ended meanwhile, and its id may be used again:
 * then another thread, or none, leads to the namespace. */
static void visit(struct walk *walk, const char *path, struct netns *netns)
{
	struct stat st;

	netns->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (netns->fd < 0)
		netns->fd = -errno;
	if (netns->fd == -ENOENT || netns->fd == -ESRCH)
		return;
	if (netns->fd < 0 || (!fstat(netns->fd, &st) && st.st_ino == netns->inode)) {
		add_seen(walk, netns->inode);
		walk->err = walk->each(walk->data, netns);
	}
	if (netns->fd >= 0)
		close(netns->fd);
}

/* The kernel writes a blank, and some other bytes, as \ and three octal digits. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		unsigned int value;

		if (sscanf(from, "\\%3o", &value) == 1 && strlen(from) >= 4) {
			*to = value;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* A line of mountinfo: "ID PARENT DEVICE ROOT PATH OPTIONS [TAGS] - TYPE SOURCE OPTIONS". */
static void visit_mount(struct walk *walk, char *line)
{
	char *type = strstr(line, " - "), *root = NULL, *path = NULL, *rest = line;
	struct netns netns;

	if (!type || strncmp(type + 3, MOUNT_TYPE " ", sizeof(MOUNT_TYPE)))
		return;
	for (int i = 0; i < 5; i++) {
		root = path;
		path = strsep(&rest, " ");
	}
	if (!root || !path || strncmp(root, MOUNT_ROOT, strlen(MOUNT_ROOT)))
		return;
	unescape(path);
	if (!find_new(walk, path, &netns))
		return;
	netns.name = text("%s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	visit(walk, path, &netns);
}

static void visit_mounts(struct walk *walk)
{
	FILE *mounts = fopen(MOUNTS_PATH, "re");
	size_t size = 0;
	char *line = NULL;

	while (mounts && getline(&line, &size, mounts) > 0)
		visit_mount(walk, line);
	free(line);
	if (mounts)
		fclose(mounts);
}

static void visit_thread(struct walk *walk, const char *pid, const char *tid)
{
	char command[32] = "", path[96];
	struct netns netns;

	snprintf(path, sizeof(path), "/proc/%.16s/task/%.16s/ns/net", pid, tid);
	if (!find_new(walk, path, &netns))
		return;
	read_line(text("/proc/%s/comm", pid), command, sizeof(command));
	netns.name = text("of %s (%s)", pid, command);
	visit(walk, path, &netns);
}

/* Call `each` for every entry of a directory of /proc that is a number. */
static void each_number(struct walk *walk, const char *path, const char *pid,
			void (*each)(struct walk *walk, const char *pid, const char *number))
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && !walk->err && (entry = readdir(dir))) {
		const struct text_block *mark = text_mark();

		if (isdigit((unsigned char)*entry->d_name))
			each(walk, pid, entry->d_name);
		text_release(mark);
	}
	if (dir)
		closedir(dir);
}

static void visit_process(struct walk *walk, const char *unused, const char *pid)
{
	(void)unused;
	each_number(walk, text("/proc/%s/task", pid), pid, visit_thread);
}

int netns_each(const char *what, int (*each)(void *data, const struct netns *netns), void *data)
{
	struct walk walk = { .each = each, .data = data };
	struct netns own = { .name = "this", .own = true };
	struct stat st;

	if (stat(OWN_PATH, &st))
		return fail_errno(what, OWN_PATH, errno);
	own.inode = walk.own = st.st_ino;
	visit(&walk, OWN_PATH, &own);
	visit_mounts(&walk);
	each_number(&walk, "/proc", NULL, visit_process);
	free(walk.seen);
	return walk.err;
}

int netns_inside(const char *what, const struct netns *netns, int (*make)(void *data), void *data)
{
	int home, made;

	if (netns->own)
		return make(data);
	if (netns->fd < 0)
		return netns->fd;
	home = open(OWN_PATH, O_RDONLY | O_CLOEXEC);
	if (home < 0)
		return -errno;
	made = setns(netns->fd, CLONE_NEWNET) ? -errno : 0;
	if (!made) {
		made = make(data);
		if (setns(home, CLONE_NEWNET))
			fault_end(fail_errno(what, "return to its network namespace", errno));
	}
	close(home);
	return made;
}
