/* SPDX-License-Identifier: GPL-2.0-only */
/* What `ccbpf run` says on stderr about its command, besides its own errors and the account at the end. */
#ifndef CCBPF_HINTS_H
#define CCBPF_HINTS_H

#include "commands.h"
#include "sys/user.h"

/*
 * That what it receives is not in the background, though no option said so. `directions`:
 * CCBPF_RUN_UPLOAD, CCBPF_RUN_DOWNLOAD.
 */
void hint_received(const struct request *request, const struct controller *c,
		   unsigned int directions);

/* The same for a user without privilege, whose prepared cgroup is for what is sent. */
void hint_only_sends(const struct request *request);

/* That a daemon does its work. */
void hint_daemon(const struct request *request, unsigned int directions);

/* That it failed, and ran as the user who called sudo. `status`: of waitpid(). */
void hint_user(const struct request *request, const struct user *user, int status);

/*
 * Words for an error: what is prepared for the user of this process, as "le without --dscp", or ""
 * where nothing is. `*use` becomes the command line that uses one of these.
 */
const char *hint_prepared(const char **use);

#endif
