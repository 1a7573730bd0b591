// SPDX-License-Identifier: GPL-2.0-only
/* A prepared cgroup: see prepared.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out/errors.h"
#include "rules/prepared.h"
#include "sys/cgroup.h"
#include "sys/user.h"
#include "util/text.h"

#define PREFIX "ccbpf-run-for-"
#define PROCS "cgroup.procs"

bool prepared_is(const char *cgroup)
{
	const char *slash = strrchr(cgroup, '/');

	return slash && !strncmp(slash + 1, PREFIX, strlen(PREFIX));
}

/* "/a/ccbpf-run-for-tcp_lp", below a path without a slash at its end. Returns 0 or -errno. */
static int name_below(const char *above, const struct ccbpf_choice *choice, char *path)
{
	int length = snprintf(path, CCBPF_CGROUP_LEN, "%s/" PREFIX "%s%s", above,
			      choice->controller, choice->dscp < CCBPF_DSCP_KEEP ? "-le" : "");

	return length < CCBPF_CGROUP_LEN ? 0 : -ENAMETOOLONG;
}

/* What systemd delegates to a user's own manager. */
static const char *delegated_to(uid_t uid)
{
	return text("/user.slice/user-%u.slice/user@%u.service", uid, uid);
}

/* A path without the slashes that name nothing, so that it has one form. */
static void copy_path(const char *given, char path[CCBPF_CGROUP_LEN])
{
	char *end = path;

	for (*end++ = *given++; *given; given++)
		if (*given != '/' || end[-1] != '/')
			*end++ = *given;
	if (end - path > 1 && end[-1] == '/')
		end--;
	*end = '\0';
}

/* Who owns a cgroup's directory, or with `file` that file of it. Returns 0 or -errno. */
static int owner_of(const char *path, const char *file, uid_t *uid)
{
	int dir = cgroup_open(path), err = 0;
	struct stat st;

	if (dir < 0)
		return dir;
	if (fstatat(dir, file ?: ".", &st, AT_SYMLINK_NOFOLLOW))
		err = -errno;
	*uid = err ? 0 : st.st_uid;
	close(dir);
	return err;
}

static int not_delegated(const char *what, const char *given, const char *path, int err)
{
	return FAIL(
		EXIT_FAILED, .what = what, .on = text("the cgroup %s", path),
		.why = err ? strerror(-err) : "it is not delegated to a user: its owner is root",
		.remedy =
			*given == '/'
				? "give the path of a cgroup that is delegated: a user owns its directory and its " PROCS
				: "`loginctl enable-linger USER` starts a user's manager, whose cgroup is delegated; "
				  "for another cgroup give its path");
}

static int check_caller(const char *what, const char *given, const char *path, uid_t uid)
{
	uid_t caller;

	if (!user_only_netnice(&caller) || caller == uid)
		return EXIT_OK;
	return FAIL(EXIT_PERMISSION, .what = what, .on = text("the cgroup %s", path),
		    .why = text("it is of user %u, and sudo calls `netnice` for user %u", uid,
				caller),
		    .remedy = text("an administrator enters `sudo ccbpf run --prepare %s`", given));
}

/* The delegated cgroup, into `path`, and whose it is. */
static int find_delegated(const char *what, const char *given, char *path, uid_t *uid)
{
	struct user user = { 0 };
	uid_t procs = 0;
	int err = EXIT_OK;

	if (*given == '/' && (strlen(given) >= CCBPF_CGROUP_LEN || strstr(given, "..")))
		return FAIL(EXIT_USAGE, .what = what, .on = text("--prepare %s", given),
			    .why = "it is not a cgroup",
			    .remedy = "give a path as in /proc/PID/cgroup, or a user");
	if (*given == '/')
		copy_path(given, path);
	else
		err = user_named(what, given, &user);
	if (err)
		return err;
	if (*given != '/')
		snprintf(path, CCBPF_CGROUP_LEN, "%s", delegated_to(user.uid));
	user_free(&user);
	err = owner_of(path, NULL, uid);
	if (!err)
		err = owner_of(path, PROCS, &procs);
	if (err || !*uid || *uid != procs || (*given != '/' && *uid != user.uid))
		return not_delegated(what, given, path, err);
	return check_caller(what, given, path, *uid);
}

int prepared_plan(const char *what, const char *given, struct ccbpf_run *about)
{
	char above[CCBPF_CGROUP_LEN];
	uid_t uid, owner;
	int err = find_delegated(what, given, above, &uid);

	if (err)
		return err;
	about->uid = uid;
	snprintf(about->command, sizeof(about->command), "for user %u", uid);
	err = name_below(above, &about->choice, about->cgroup);
	if (err)
		return fail_errno(what, above, err);
	if (!owner_of(about->cgroup, NULL, &owner) && owner)
		return FAIL(EXIT_FAILED, .what = what, .on = text("the cgroup %s", about->cgroup),
			    .why = "it is there already, and its owner is not root",
			    .remedy = "remove it with rmdir");
	return EXIT_OK;
}

static int give_procs(const char *path, uid_t uid)
{
	int dir = cgroup_open(path), err = 0;

	if (dir < 0)
		return dir;
	if (fchownat(dir, PROCS, uid, -1, AT_SYMLINK_NOFOLLOW))
		err = -errno;
	close(dir);
	return err;
}

int prepared_open(const struct ccbpf_run *about)
{
	return give_procs(about->cgroup, about->uid);
}

bool prepared_shut(const char *cgroup)
{
	uid_t owner;

	if (owner_of(cgroup, NULL, &owner) || owner)
		return false;
	give_procs(cgroup, 0);
	return true;
}

/* Returns 0, or -ENOENT where it is none of this user's. */
static int find(const char *path)
{
	uid_t directory, procs;

	return owner_of(path, NULL, &directory) || directory || owner_of(path, PROCS, &procs) ||
			       procs != geteuid()
		       ? -ENOENT
		       : 0;
}

/* Returns 0, -ENOENT where it is none, -EACCES where it is out of reach. */
static int enter(const char *path)
{
	int dir, fd, err = find(path);

	if (err)
		return err;
	dir = cgroup_open(path);
	fd = dir < 0 ? -1 : openat(dir, PROCS, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		err = -EACCES;
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	return err;
}

/* Tries those below the cgroups of this process, from its own upwards, then the one of its user. */
static int try_each(const struct ccbpf_choice *choice, char *path, int (*try)(const char *path))
{
	char above[CCBPF_CGROUP_LEN];
	int err = cgroup_reach();

	if (!err)
		err = cgroup_own(above, sizeof(above));
	while (!err) {
		char *slash = strrchr(above, '/');

		if (!name_below(above[1] ? above : "", choice, path) && try(path) == 0)
			return 0;
		if (!slash || !above[1])
			break;
		slash[slash == above] = '\0';
	}
	return err || name_below(delegated_to(geteuid()), choice, path) ? -ENOENT : try(path);
}

int prepared_enter(const struct ccbpf_choice *choice, char *path)
{
	return try_each(choice, path, enter);
}

bool prepared_exists(const struct ccbpf_choice *choice)
{
	char path[CCBPF_CGROUP_LEN];

	return try_each(choice, path, find) == 0;
}
