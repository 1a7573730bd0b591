// SPDX-License-Identifier: GPL-2.0-only
/* The BPF file system: see bpffs.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/bpffs.h"
#include "sys/process.h"
#include "util/text.h"

int bpffs_at(const char *path)
{
	struct statfs fs;

	if (statfs(path, &fs))
		return -errno;
	return (unsigned long)fs.f_type == BPF_FS_MAGIC ? 0 : -ENOTSUP;
}

static bool is_bpffs(const char *path)
{
	return bpffs_at(path) == 0;
}

bool bpffs_is_above(const char *path)
{
	return strncmp(path, BPFFS "/", sizeof(BPFFS)) == 0;
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

/*
 * `ip netns exec` gives its command a fresh /sys in a mount namespace of its
 * own. A bpffs mounted there would end with the command, and all that is pinned
 * in it: the pins lie where they lie for who called it, or, if that is within
 * another `ip netns exec`, for who called that: the first with a bpffs, or the
 * last. Returns that process, or 0 where network or mounts are those of all that
 * called us.
 */
static pid_t caller_outside(void)
{
	pid_t within = getpid(), pid;

	for (pid = getppid(); pid > 0; pid = process_parent(pid)) {
		const char *mnt = text("/proc/%d/ns/mnt", pid);

		if (access(mnt, F_OK))
			break; /* it cannot be seen */
		if (same_file(text("/proc/%d/ns/mnt", within), mnt) ||
		    same_file(text("/proc/%d/ns/net", within), text("/proc/%d/ns/net", pid)))
			continue;
		within = pid;
		if (is_bpffs(text("/proc/%d/root" BPFFS, pid)))
			break;
	}
	if (within == getpid())
		return 0;
	/* Who called us may end before us; the first process does not. */
	return same_file(text("/proc/%d/ns/mnt", within), "/proc/1/ns/mnt") ? 1 : within;
}

const char *bpffs_prefix(const char *path)
{
	pid_t pid;

	if (!bpffs_is_above(path) || is_bpffs(BPFFS) || !(pid = caller_outside()))
		return "";
	return is_bpffs(text("/proc/%d/root" BPFFS, pid)) ? text("/proc/%d/root", pid) : "";
}

/* In the mount namespace of a process; in a child, which ends there. */
static bool mount_there(pid_t pid)
{
	int fd = open(text("/proc/%d/ns/mnt", pid), O_RDONLY | O_CLOEXEC);
	pid_t child = fd < 0 ? -1 : fork();

	if (child == 0)
		_exit(setns(fd, CLONE_NEWNS) || mount("bpf", BPFFS, "bpf", 0, "mode=0700"));
	if (child > 0)
		waitpid(child, NULL, 0);
	if (fd >= 0)
		close(fd);
	/* Not the child's status: where SIGCHLD is ignored there is none. */
	return is_bpffs(text("/proc/%d/root" BPFFS, pid));
}

/* Where who called us sees it: see caller_outside(). */
static int mount_outside(const char *what, pid_t pid)
{
	if (!mount_there(pid))
		return FAIL(
			EXIT_FAILED, .what = what,
			.why = "bpffs is not mounted, and here (`ip netns exec`) a mount would end with the command",
			.remedy = "`mount -t bpf bpf " BPFFS "` outside of the namespace first");
	return EXIT_OK;
}

int bpffs_mount(const char *what)
{
	pid_t pid;

	if (is_bpffs(BPFFS))
		return EXIT_OK;
	pid = caller_outside();
	if (pid)
		return mount_outside(what, pid);
	if (mount("bpf", BPFFS, "bpf", 0, "mode=0700") == 0)
		return EXIT_OK;
	return FAIL(errno == EPERM ? EXIT_PERMISSION : EXIT_KERNEL, .what = what,
		    .why = text("bpffs is not mounted on " BPFFS " and cannot be: %s%s",
				strerror(errno),
				errno == EPERM ? " (that needs cap_sys_admin)" : ""),
		    .remedy = "`mount -t bpf bpf " BPFFS
			      "`, or set CCBPF_PIN_ROOT to a directory on bpffs");
}
