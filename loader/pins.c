// SPDX-License-Identifier: GPL-2.0-only
/* The pin directory: see pins.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"
#include "kernel.h"
#include "pins.h"

#define BPFFS "/sys/fs/bpf"
#define LONGEST_ROOT 256 /* paths of pins must fit text()'s buffers */
#define LOCK_WAIT_NS \
	(10 * 1000000000ULL) /* longer than any command holds it \
					   */
#define LOCK_POLL_NS (10 * 1000000L)

static int lock_fd = -1;
static bool lock_is_change;

static bool is_bpffs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 &&
	       (unsigned long)fs.f_type == BPF_FS_MAGIC;
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* The parent of a process, 0: none that can be seen. */
static pid_t parent_of(pid_t pid)
{
	char line[512], *end;
	int parent = 0;

	if (read_line(text("/proc/%d/stat", pid), line, sizeof(line)) == 0 &&
	    (end = strrchr(line, ')')))
		sscanf(end + 1, " %*c %d", &parent);
	return parent;
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

	for (pid = getppid(); pid > 0; pid = parent_of(pid)) {
		const char *mnt = text("/proc/%d/ns/mnt", pid);

		if (access(mnt, F_OK))
			break; /* it cannot be seen */
		if (same_file(text("/proc/%d/ns/mnt", within), mnt) ||
		    same_file(text("/proc/%d/ns/net", within),
			      text("/proc/%d/ns/net", pid)))
			continue;
		within = pid;
		if (is_bpffs(text("/proc/%d/root" BPFFS, pid)))
			break;
	}
	if (within == getpid())
		return 0;
	/* Who called us may end before us; the first process does not. */
	return same_file(text("/proc/%d/ns/mnt", within), "/proc/1/ns/mnt")
		       ? 1
		       : within;
}

/* What stands before the path of a root that only who called us can see. */
static const char *prefix_of(const char *root)
{
	pid_t pid;

	if (strncmp(root, BPFFS "/", sizeof(BPFFS)) || is_bpffs(BPFFS) ||
	    !(pid = caller_outside()))
		return "";
	return is_bpffs(text("/proc/%d/root" BPFFS, pid))
		       ? text("/proc/%d/root", pid)
		       : "";
}

static char root_found[PATH_MAX]; /* by pins_root() */

const char *pins_root(void)
{
	const char *given = getenv("CCBPF_PIN_ROOT");
	size_t length;

	if (*root_found)
		return root_found;
	if (!given || !*given)
		given = PINS_DEFAULT_ROOT;
	snprintf(root_found, sizeof(root_found), "%s%s", prefix_of(given),
		 given);
	for (length = strlen(root_found);
	     length > 1 && root_found[length - 1] == '/'; length--)
		root_found[length - 1] = '\0';
	return root_found;
}

const char *pin_path(const char *a, const char *b)
{
	return text("%s%s%s%s%s", pins_root(), a ? "/" : "", a ?: "",
		    b ? "/" : "", b ?: "");
}

/* In the mount namespace of a process; in a child, which ends there. */
static bool mount_there(pid_t pid)
{
	int status = -1,
	    fd = open(text("/proc/%d/ns/mnt", pid), O_RDONLY | O_CLOEXEC);
	pid_t child = fd < 0 ? -1 : fork();

	if (child == 0)
		_exit(setns(fd, CLONE_NEWNS) ||
		      mount("bpf", BPFFS, "bpf", 0, "mode=0700"));
	if (child > 0)
		waitpid(child, &status, 0);
	if (fd >= 0)
		close(fd);
	return status == 0;
}

/* Where who called us sees it: see caller_outside(). */
static int mount_outside(const char *what, pid_t pid)
{
	if (!mount_there(pid))
		return FAIL(
			EXIT_FAILED, .what = what,
			.why = "bpffs is not mounted, and here (`ip netns exec`) a mount would end with the command",
			.remedy = "`mount -t bpf bpf " BPFFS
				  "` outside of the namespace first");
	*root_found = '\0'; /* it lies elsewhere now */
	return EXIT_OK;
}

/*
 * Mount bpffs where everybody looks for it, as bpftool does: readable by root
 * only.
 */
static int mount_bpffs(const char *what)
{
	pid_t pid;

	if (is_bpffs(BPFFS))
		return EXIT_OK;
	pid = caller_outside();
	if (pid)
		return mount_outside(what, pid);
	if (mount("bpf", BPFFS, "bpf", 0, "mode=0700") == 0)
		return EXIT_OK;
	return FAIL(
		errno == EPERM ? EXIT_PERMISSION : EXIT_KERNEL, .what = what,
		.why = text(
			"bpffs is not mounted on " BPFFS " and cannot be: %s%s",
			strerror(errno),
			errno == EPERM ? " (that needs cap_sys_admin)" : ""),
		.remedy = "`mount -t bpf bpf " BPFFS
			  "`, or set CCBPF_PIN_ROOT to a directory on bpffs");
}

static int not_bpffs(const char *what)
{
	return FAIL(EXIT_FAILED, .what = what, .on = pins_root(),
		    .why = "CCBPF_PIN_ROOT does not lie on a BPF file system",
		    .remedy = "choose a directory below " BPFFS
			      ", or mount bpffs there: `mount -t bpf bpf …`");
}

/* What bpffs or this command would trip over later, said first. */
static int check_root(const char *what)
{
	const char *root = pins_root(), *below = strstr(root, BPFFS "/");
	const char *why = NULL;

	if (*root != '/')
		why = "CCBPF_PIN_ROOT is not an absolute path";
	else if (strlen(root) > LONGEST_ROOT)
		why = text("CCBPF_PIN_ROOT has more than %d characters",
			   LONGEST_ROOT);
	else if (below && strchr(below, '.'))
		why = "CCBPF_PIN_ROOT has a dot, which bpffs refuses in names";
	if (!why)
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = what, .on = root, .why = why,
		    .remedy = "choose a directory like " PINS_DEFAULT_ROOT);
}

/*
 * Make the root and what leads to it, but only below a bpffs: no directory is
 * left on another file system.
 */
static int make_root(const char *what)
{
	char path[PATH_MAX];
	char *slash;

	snprintf(path, sizeof(path), "%s", pins_root());
	for (slash = path; (slash = strchr(slash + 1, '/')) || true;) {
		if (slash)
			*slash = '\0';
		if (access(path, F_OK) != 0) {
			char *last = strrchr(path, '/');

			*last = '\0';
			if (!is_bpffs(*path ? path : "/"))
				return not_bpffs(what);
			*last = '/';
			if (mkdir(path, 0700) && errno != EEXIST)
				return fail_errno(what, path, errno);
		}
		if (!slash)
			break;
		*slash = '/';
	}
	return is_bpffs(path) ? EXIT_OK : not_bpffs(what);
}

pid_t pin_lock_holder(int fd)
{
	char line[256], wanted[64];
	struct stat st;
	FILE *locks = fopen("/proc/locks", "re");
	pid_t found = 0;

	if (!locks || fstat(fd, &st))
		goto out;
	snprintf(wanted, sizeof(wanted), "%02x:%02x:%lu", major(st.st_dev),
		 minor(st.st_dev), st.st_ino);
	while (!found && fgets(line, sizeof(line), locks)) {
		char where[64];
		int pid;

		if (sscanf(line, "%*d: FLOCK %*s %*s %d %63s", &pid, where) ==
			    2 &&
		    strcmp(where, wanted) == 0)
			found = pid;
	}
out:
	if (locks)
		fclose(locks);
	return found;
}

static int locked_by_other(const char *what, int fd)
{
	pid_t pid = pin_lock_holder(fd);

	return FAIL(
		EXIT_FAILED, .what = what, .on = pins_root(),
		.why = pid ? text("another ccbpf, process %d, has held its lock for 10 s",
				  pid)
			   : "another ccbpf has held its lock for 10 s",
		.remedy = "let it end, then try again");
}

/* flock, for LOCK_WAIT_NS at most. Returns 0 or -errno. */
static int lock_within(int fd, int mode)
{
	struct timespec pause = { .tv_nsec = LOCK_POLL_NS };
	uint64_t until = monotonic_ns() + LOCK_WAIT_NS;

	while (flock(fd, mode | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (monotonic_ns() > until)
			return -EWOULDBLOCK;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/*
 * Whether `fd` is still what the path names: the directory may have been
 * removed while we waited for its lock.
 */
static bool still_there(int fd, const char *path)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && stat(path, &named) == 0 &&
	       ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

/*
 * Open and lock the root. Returns EXIT_OK, -ENOENT where it is not there, or
 * the exit code after saying why not.
 */
static int lock_root(const char *what, int mode)
{
	for (;;) {
		int err, fd = open(pins_root(),
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0 && errno == ENOENT)
			return -ENOENT;
		if (fd < 0)
			return fail_errno(what, pins_root(), errno);
		err = lock_within(fd, mode);
		if (err) {
			err = err == -EWOULDBLOCK
				      ? locked_by_other(what, fd)
				      : fail_errno(what, pins_root(), err);
			close(fd);
			return err;
		}
		if (still_there(fd, pins_root())) {
			lock_fd = fd;
			lock_is_change = mode == LOCK_EX;
			return EXIT_OK;
		}
		close(fd);
	}
}

int pins_lock_change(const char *what)
{
	int err = check_root(what);

	if (!err && strncmp(pins_root(), BPFFS "/", sizeof(BPFFS)) == 0)
		err = mount_bpffs(what);
	while (!err) {
		err = make_root(what);
		if (!err)
			err = lock_root(what, LOCK_EX);
		if (err != -ENOENT)
			break;
		err = EXIT_OK; /* the last `disable` took it away in between */
	}
	return err;
}

int pins_lock_read(const char *what, bool *exists)
{
	int err = check_root(what) ?: lock_root(what, LOCK_SH);

	*exists = err != -ENOENT;
	if (err == -ENOENT)
		return EXIT_OK;
	if (!err && !is_bpffs(pins_root())) {
		pins_unlock();
		return not_bpffs(what);
	}
	return err;
}

void pins_unlock(void)
{
	if (lock_fd < 0)
		return;
	if (lock_is_change)
		rmdir(pins_root()); /* refused unless empty */
	close(lock_fd);
	lock_fd = -1;
}

bool pin_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int pin_make(const char *what, int fd, const char *path)
{
	return bpf_obj_pin(fd, path) ? fail_errno(what, path, errno) : EXIT_OK;
}

int pin_make_dir(const char *what, const char *path)
{
	return mkdir(path, 0700) && errno != EEXIST
		       ? fail_errno(what, path, errno)
		       : EXIT_OK;
}

int pin_remove(const char *path)
{
	return unlink(path) && errno != ENOENT ? -errno : 0;
}

int pin_remove_dir(const char *path)
{
	return rmdir(path) && errno != ENOENT ? -errno : 0;
}

int pin_open_map(const char *path, const struct map_shape *shape)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);
	int fd = bpf_obj_get(path);

	if (fd < 0)
		return -errno;
	if (bpf_map_get_info_by_fd(fd, &info, &size) == 0 &&
	    info.type == shape->type && info.key_size == shape->key_size &&
	    info.value_size == shape->value_size &&
	    (!shape->max_entries || info.max_entries == shape->max_entries))
		return fd;
	close(fd);
	return -EMEDIUMTYPE;
}

int pin_unusable(const char *what, const char *path, int err)
{
	if (err != -EMEDIUMTYPE)
		return fail_errno(what, path, err);
	return FAIL(
		EXIT_FAILED, .what = what, .on = path,
		.why = "what is pinned there is not what this ccbpf keeps there: another version made it",
		.remedy = "`ccbpf clean --all` disables all and removes it");
}

int pin_lock_dir(const char *path)
{
	int err, fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}
