// SPDX-License-Identifier: GPL-2.0-only
/* Other network namespaces: see netns.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/device.h"
#include "sys/namespaces.h"
#include "sys/netns.h"
#include "util/text.h"

#define NAMES "/run/netns" /* of `ip netns` */
#define FIRST_PIDS 0xeffffffc /* inode of the pid namespace of the host: PROC_PID_INIT_INO */

static int open_netns(const char *which)
{
	const char *path = text(NAMES "/%s", which);
	int fd;

	if (!*which)
		return -ENOENT;
	if (*which == '/')
		path = which;
	else if (strspn(which, "0123456789") == strlen(which) && access(path, F_OK))
		path = text("/proc/%s/ns/net", which);
	else if (strchr(which, '/'))
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The cookie of the namespace of this process. */
static int own_cookie(uint64_t *cookie)
{
	socklen_t size = sizeof(*cookie);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	err = getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &size) ? -errno : 0;
	close(fd);
	return err;
}

int netns_cookie(const char *which, uint64_t *cookie)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there = open_netns(which);
	int err = home < 0 ? -errno : there < 0 ? there : 0;

	if (!err)
		err = setns(there, CLONE_NEWNET) ? -errno : own_cookie(cookie);
	if (home >= 0 && setns(home, CLONE_NEWNET) && !err)
		err = -errno;
	if (home >= 0)
		close(home);
	if (there >= 0)
		close(there);
	return err;
}

/* What netns_is_gone() looks for. */
struct search {
	const char *what;
	uint64_t cookie;
	bool found, unsure; /* unsure: a namespace could not be asked */
};

static int ask_cookie(void *cookie)
{
	return own_cookie(cookie);
}

/* Ends the walk where it is found. */
static int compare(void *data, const struct netns *netns)
{
	struct search *search = data;
	uint64_t cookie = 0;

	if (netns_inside(search->what, netns, ask_cookie, &cookie))
		search->unsure = true;
	else
		search->found = cookie == search->cookie;
	return search->found;
}

bool netns_is_gone(const char *what, const char *which, uint64_t cookie)
{
	struct search search = { .what = what, .cookie = cookie };
	uint64_t named;
	struct stat st;

	if (!netns_cookie(which, &named) && named == cookie)
		return false;
	if (stat("/proc/self/ns/pid", &st) || st.st_ino != FIRST_PIDS)
		return false; /* processes that are not seen here may be in it */
	return !netns_each(what, compare, &search) && !search.unsure;
}

const char *netns_name(ino_t inode)
{
	DIR *dir = opendir(NAMES);
	const char *found = NULL;
	struct dirent *entry;
	struct stat st;

	while (dir && !found && (entry = readdir(dir)))
		if (*entry->d_name != '.' && !fstatat(dirfd(dir), entry->d_name, &st, 0) &&
		    st.st_ino == inode)
			found = text("%s", entry->d_name);
	if (dir)
		closedir(dir);
	return found;
}

const char *netns_place(ino_t inode)
{
	return inode == device_netns()
		       ? ""
		       : text(" in network namespace %s",
			      netns_name(inode) ?: text("%lu", (unsigned long)inode));
}
