/* SPDX-License-Identifier: GPL-2.0-only */
/* The user that a command is run as. */
#ifndef CCBPF_USER_H
#define CCBPF_USER_H

#include <stdbool.h>
#include <sys/types.h>

struct user {
	bool change; /* false: the user that this process is */
	bool by_sudo; /* who called sudo, and was not given by --uid */
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* supplementary ones */
	int n_groups;
	/* From the user database, NULL where the user is not in it; to be freed by user_free(). */
	char *name, *home, *shell;
};

/* By name or number. Returns EXIT_OK, or the exit code after saying that there is no such user. */
int user_named(const char *what, const char *given, struct user *out);

/*
 * By --uid (`given`, a name or a number) or, without it, who called sudo: SUDO_UID and SUDO_GID,
 * which count only where this process is root's, and where SUDO_COMMAND is this command: in a shell
 * or a script that sudo has started as root, it is root. Where they count, `given` may be nobody
 * else: a user whom sudo allows this command alone must not become another one. Returns EXIT_OK,
 * or the exit code after saying what is wrong.
 */
int user_find(const char *what, const char *given, struct user *out);

/*
 * Whether sudo calls `netnice`, and for which user other than root. A line of sudoers may permit
 * `netnice` to everybody, so there it must act for no other user; who may call `ccbpf` is an
 * administrator.
 */
bool user_only_netnice(uid_t *caller);

/*
 * Become that user, with the groups, and HOME, USER, LOGNAME and SHELL where they are known.
 * Returns 0 or -errno.
 */
int user_become(const struct user *user);

void user_free(struct user *user);

#endif
