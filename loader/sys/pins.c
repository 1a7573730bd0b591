// SPDX-License-Identifier: GPL-2.0-only
/* The pin directory: see pins.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/bpffs.h"
#include "sys/pins.h"
#include "util/clock.h"
#include "util/text.h"

#define LONGEST_ROOT 256 /* paths of pins must fit TEXT_MOST */
/* longer than any command holds it */
#define LOCK_WAIT_NS (10 * 1000000000ULL)
#define LOCK_TURNS 6 /* so many times, while its holder changes */
#define LOCK_POLL_NS (10 * 1000000L)
#define ROOT_TRIES 1000 /* each is lost to another command's rmdir() */

static int lock_fd = -1;
static bool lock_is_change;

static char root_found[PATH_MAX]; /* by pins_root() */

const char *pins_named_root(void)
{
	const char *given = getenv("CCBPF_PIN_ROOT");

	return given && *given ? given : PINS_DEFAULT_ROOT;
}

const char *pins_root(void)
{
	const char *given = pins_named_root();
	size_t length;

	if (*root_found)
		return root_found;
	snprintf(root_found, sizeof(root_found), "%s%s", bpffs_prefix(given), given);
	for (length = strlen(root_found); length > 1 && root_found[length - 1] == '/'; length--)
		root_found[length - 1] = '\0';
	return root_found;
}

const char *pin_path(const char *a, const char *b)
{
	return text("%s%s%s%s%s", pins_root(), a ? "/" : "", a ?: "", b ? "/" : "", b ?: "");
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

	if (access("/proc/self/fd", F_OK))
		return FAIL(
			EXIT_FAILED, .what = what, .on = "/proc",
			.why = "it is not mounted, and without it nobody can tell what is pinned",
			.remedy = "`mount -t proc proc /proc`");
	if (*root != '/')
		why = "CCBPF_PIN_ROOT is not an absolute path";
	else if (strlen(root) > LONGEST_ROOT)
		why = text("CCBPF_PIN_ROOT has more than %d characters", LONGEST_ROOT);
	else if (below && strchr(below, '.'))
		why = "CCBPF_PIN_ROOT has a dot, which bpffs refuses in names";
	if (!why)
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = what, .on = root, .why = why,
		    .remedy = "choose a directory like " PINS_DEFAULT_ROOT);
}

/*
 * Make the directory `path`, in which `slash` is the last slash, but only below
 * a bpffs: no directory is left on another file system. Returns 0 or -errno.
 */
static int make_dir(char *path, char *slash)
{
	int err;

	if (access(path, F_OK) == 0)
		return 0;
	*slash = '\0';
	err = bpffs_at(*path ? path : "/");
	*slash = '/';
	if (!err && mkdir(path, 0700) && errno != EEXIST)
		err = -errno;
	return err;
}

/*
 * Make the root and what leads to it. Returns EXIT_OK, -ENOENT where another
 * command removed one of them meanwhile, or the exit code after saying why not.
 */
static int make_root(const char *what)
{
	char path[PATH_MAX], *last, *next;
	int err = 0;

	snprintf(path, sizeof(path), "%s", pins_root());
	for (last = path; !err && last; last = next) {
		next = strchr(last + 1, '/');
		if (next)
			*next = '\0';
		err = make_dir(path, last);
		if (next)
			*next = '/';
	}
	if (!err)
		err = bpffs_at(path);
	if (err == -ENOTSUP)
		return not_bpffs(what);
	return !err || err == -ENOENT ? err : fail_errno(what, path, err);
}

pid_t pin_lock_holder(int fd)
{
	char line[256], wanted[64];
	struct stat st;
	FILE *locks = fopen("/proc/locks", "re");
	pid_t found = 0;

	if (!locks || fstat(fd, &st))
		goto out;
	snprintf(wanted, sizeof(wanted), "%02x:%02x:%lu", major(st.st_dev), minor(st.st_dev),
		 st.st_ino);
	while (!found && fgets(line, sizeof(line), locks)) {
		char where[64];
		int pid;

		if (sscanf(line, "%*d: FLOCK %*s %*s %d %63s", &pid, where) == 2 &&
		    strcmp(where, wanted) == 0)
			found = pid;
	}
out:
	if (locks)
		fclose(locks);
	return found;
}

static int locked_by_other(const char *what, int fd, uint64_t waited_ns)
{
	pid_t pid = pin_lock_holder(fd);

	return FAIL(EXIT_FAILED, .what = what, .on = pins_root(),
		    .why = text("another ccbpf%s holds its lock (waited %.0f s)",
				pid ? text(", process %d,", pid) : "", waited_ns / 1e9),
		    .remedy = pid ? text("wait for it, then try again; if it hangs, `kill %d`", pid)
				  : "wait for it, then try again");
}

/* flock, until then at most. Returns 0 or -errno. */
static int lock_until(int fd, int mode, uint64_t until_ns)
{
	struct timespec pause = { .tv_nsec = LOCK_POLL_NS };

	while (flock(fd, mode | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (monotonic_ns() > until_ns)
			return -EWOULDBLOCK;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/*
 * flock, until one other process has held it for LOCK_WAIT_NS. Many that are
 * quick may take turns for longer. Returns 0 or -errno.
 */
static int lock_within(int fd, int mode)
{
	int err = lock_until(fd, mode, 0);

	for (int turn = 0; turn < LOCK_TURNS && err == -EWOULDBLOCK; turn++) {
		pid_t holder = pin_lock_holder(fd);

		err = lock_until(fd, mode, monotonic_ns() + LOCK_WAIT_NS);
		if (err && pin_lock_holder(fd) == holder)
			break;
	}
	return err;
}

/*
 * Whether `fd` is still what the path names: the directory may have been
 * removed while we waited for its lock.
 */
static bool still_there(int fd, const char *path)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && stat(path, &named) == 0 && ours.st_ino == named.st_ino &&
	       ours.st_dev == named.st_dev;
}

/*
 * Open and lock the root. Returns EXIT_OK, -ENOENT where it is not there or was
 * removed meanwhile, or the exit code after saying why not.
 */
static int lock_root(const char *what, int mode)
{
	int err, fd = open(pins_root(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t since_ns = monotonic_ns();

	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0)
		return fail_errno(what, pins_root(), errno);
	err = lock_within(fd, mode);
	if (!err && still_there(fd, pins_root())) {
		lock_fd = fd;
		lock_is_change = mode == LOCK_EX;
		return EXIT_OK;
	}
	if (err == -EWOULDBLOCK)
		err = locked_by_other(what, fd, age_ns(since_ns));
	else if (err)
		err = fail_errno(what, pins_root(), err);
	close(fd);
	return err ?: -ENOENT;
}

static int root_vanishes(const char *what)
{
	return FAIL(EXIT_FAILED, .what = what, .on = pins_root(),
		    .why = text("it was created %d times and removed each time", ROOT_TRIES),
		    .remedy = "see which command or script removes it");
}

/* BPF objects are changed there as well, but nothing is pinned or removed. */
static int refuse_read_only(const char *what)
{
	const char *root = pins_root();
	struct statvfs fs;

	if (statvfs(root, &fs) || !(fs.f_flag & ST_RDONLY))
		return EXIT_OK;
	pins_unlock();
	return FAIL(EXIT_FAILED, .what = what, .on = root,
		    .why = text("bpffs is mounted read-only there (%s)", strerror(EROFS)),
		    .remedy = bpffs_is_above(root)
				      ? "mount it read-write: `mount -o remount,rw " BPFFS "`"
				      : "mount it read-write");
}

int pins_lock_change(const char *what)
{
	int err = check_root(what);

	if (!err && bpffs_is_above(pins_root())) {
		err = bpffs_mount(what);
		*root_found = '\0'; /* its prefix may be another one now */
	}
	if (err)
		return err;
	/* The last `disable` may take the root away between any two steps. */
	for (int i = 0; i < ROOT_TRIES; i++) {
		err = make_root(what);
		if (!err)
			err = lock_root(what, LOCK_EX);
		if (!err)
			err = refuse_read_only(what);
		if (err != -ENOENT)
			return err;
	}
	return root_vanishes(what);
}

int pins_lock_read(const char *what, bool *exists)
{
	int err = check_root(what), tries = ROOT_TRIES;

	/* While we waited for one root it may have been removed and made anew. */
	while (!err && (err = lock_root(what, LOCK_SH)) == -ENOENT && pin_exists(pins_root()) &&
	       --tries)
		err = EXIT_OK;
	*exists = err != -ENOENT;
	if (err == -ENOENT)
		return EXIT_OK;
	if (!err && bpffs_at(pins_root())) {
		pins_unlock();
		return not_bpffs(what);
	}
	return err;
}

static int lock_dir(const char *path, int operation)
{
	int err, fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (flock(fd, operation | LOCK_NB) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

bool pins_try_read(void)
{
	lock_fd = lock_dir(pins_root(), LOCK_SH);
	lock_is_change = false;
	return lock_fd >= 0;
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

int pin_lock_dir(const char *path)
{
	return lock_dir(path, LOCK_EX);
}

bool pin_dir_is_held(const char *path)
{
	int fd = lock_dir(path, LOCK_SH);

	if (fd >= 0)
		close(fd);
	return fd == -EWOULDBLOCK;
}
