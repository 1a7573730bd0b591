// SPDX-License-Identifier: GPL-2.0-only
/* The user that a command is run as: see user.h. */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/user.h"
#include "util/memory.h"
#include "util/text.h"

#define GROUPS_MOST 65536 /* NGROUPS_MAX of Linux */

/* An id in decimal: not -1, which the kernel takes for "unchanged". */
static bool parse_id(const char *string, id_t *id)
{
	char *end;
	unsigned long value;

	if (!string || *string < '0' || *string > '9')
		return false;
	errno = 0;
	value = strtoul(string, &end, 10);
	if (errno || *end || value >= (id_t)-1)
		return false;
	*id = value;
	return true;
}

static char *copy_or_null(const char *string)
{
	return string ? must_copy(string) : NULL;
}

static void read_groups(struct user *user)
{
	int n = 32;

	for (;;) {
		user->groups = must_grow(user->groups, n * sizeof(gid_t));
		user->n_groups = n;
		if (getgrouplist(user->name, user->gid, user->groups, &user->n_groups) >= 0)
			return;
		if (n >= GROUPS_MOST)
			break;
		n *= 2;
	}
	user->n_groups = 0;
}

static void take(struct user *user, const struct passwd *entry)
{
	user->name = copy_or_null(entry->pw_name);
	user->home = copy_or_null(entry->pw_dir);
	user->shell = copy_or_null(entry->pw_shell);
	read_groups(user);
}

int user_named(const char *what, const char *given, struct user *user)
{
	const struct passwd *entry = getpwnam(given);

	*user = (struct user){ 0 };
	if (!entry && parse_id(given, &user->uid))
		entry = getpwuid(user->uid);
	if (!entry)
		return FAIL(EXIT_USAGE, .what = what, .on = text("user %s", given),
			    .why = "there is no such user",
			    .remedy = "give a name or a number that `getent passwd` has");
	user->change = true;
	user->uid = entry->pw_uid;
	user->gid = entry->pw_gid;
	take(user, entry);
	return EXIT_OK;
}

/* Whether a word of `command` is a path that ends in this name. */
static bool has_path_to(const char *command, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = command; (at = strchr(at, '/')); at++)
		if (!strncmp(at + 1, name, length) && (!at[1 + length] || at[1 + length] == ' '))
			return true;
	return false;
}

/*
 * Whether the command that sudo has started is this one, by SUDO_COMMAND: "/PATH/netnice ARGUMENT…",
 * with the path that the caller gave, or that of the file that it leads to. Otherwise it is a
 * shell, a script or env(1) of root's, which has started this command. A path may hold a blank,
 * so our name anywhere in SUDO_COMMAND counts; where nothing is known, sudo has started this one.
 */
static bool sudo_started_this(void)
{
	const char *command = getenv("SUDO_COMMAND");
	char file[PATH_MAX] = "";
	ssize_t n = readlink("/proc/self/exe", file, sizeof(file) - 1);

	if (!command || !*command || n < 0)
		return true;
	return has_path_to(command, "ccbpf") || has_path_to(command, "netnice") ||
	       has_path_to(command, program_invocation_short_name) ||
	       has_path_to(command, basename(file));
}

/* Whether sudo runs this command for somebody who is not root. */
static bool called_by_sudo(uid_t *uid)
{
	return !getuid() && !geteuid() && parse_id(getenv("SUDO_UID"), uid) && *uid &&
	       sudo_started_this();
}

bool user_only_netnice(uid_t *caller)
{
	return !strcmp(program_invocation_short_name, "netnice") && called_by_sudo(caller);
}

/* Who may call this command by sudo, and nothing else, must not become anybody by it. */
static int check_given(const char *what, const char *given, const struct user *user)
{
	uid_t caller;

	if (!called_by_sudo(&caller) || caller == user->uid)
		return EXIT_OK;
	return FAIL(EXIT_PERMISSION, .what = what, .on = text("--uid %s", given),
		    .why = text("sudo calls it for user %u, as whom the command is run", caller),
		    .remedy = text("`sudo netnice sudo -u %s COMMAND`, where sudo permits COMMAND",
				   given));
}

int user_find(const char *what, const char *given, struct user *user)
{
	const struct passwd *entry;
	int err;

	if (given) {
		err = user_named(what, given, user);
		if (!err)
			err = check_given(what, given, user);
		return err;
	}
	*user = (struct user){ .uid = getuid(), .gid = getgid() };
	if (!called_by_sudo(&user->uid)) {
		user->uid = getuid();
		return EXIT_OK;
	}
	entry = getpwuid(user->uid);
	if (!parse_id(getenv("SUDO_GID"), &user->gid)) {
		if (!entry)
			return FAIL(EXIT_FAILED, .what = what, .on = getenv("SUDO_UID"),
				    .why = "SUDO_UID names no user, and SUDO_GID no group",
				    .remedy = "say who runs the command: --uid USER");
		user->gid = entry->pw_gid;
	}
	user->change = user->by_sudo = true;
	if (entry)
		take(user, entry);
	return EXIT_OK;
}

static int set_or_unset(const char *key, const char *value)
{
	return value ? setenv(key, value, 1) : unsetenv(key);
}

int user_become(const struct user *user)
{
	if (!user->change)
		return 0;
	if (setgroups(user->n_groups, user->groups) || setresgid(user->gid, user->gid, user->gid) ||
	    setresuid(user->uid, user->uid, user->uid))
		return -errno;
	if (set_or_unset("HOME", user->home) || set_or_unset("USER", user->name) ||
	    set_or_unset("LOGNAME", user->name) || set_or_unset("SHELL", user->shell))
		return -errno;
	return 0;
}

void user_free(struct user *user)
{
	free(user->groups);
	free(user->name);
	free(user->home);
	free(user->shell);
}
