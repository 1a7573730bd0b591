/* SPDX-License-Identifier: GPL-2.0-only */
/* How a run begins: the same for `run COMMAND` and for `run --prepare`. */
#ifndef CCBPF_BEGIN_H
#define CCBPF_BEGIN_H

#include <stdbool.h>

#include "commands.h"
#include "rules/run.h"
#include "sys/user.h"

/* The options of `run` that no other command has: request.own[]. */
enum run_option {
	RUN_DSCP,
	RUN_UID,
	RUN_PREPARE,
	RUN_OFF,
};

/*
 * Refuse a controller that only root may select, unless it is for root. `what` begins the
 * message. Returns EXIT_OK, or the exit code after saying why not.
 */
int begin_check(const char *what, const struct controller *c, uid_t uid);

/*
 * What is to run, for whom and in which directions (CCBPF_RUN_...), into `about`: all but the
 * cgroup. Returns EXIT_OK, or the exit code after saying why not.
 */
int begin_describe(const char *what, const struct request *request, const struct controller *c,
		   const struct user *user, unsigned int directions, struct ccbpf_run *about);

/*
 * Enable its controller if that is not, make its cgroup, attach its programs, with the lock for
 * a change held meanwhile. Says unless `quiet` what it has enabled. Returns EXIT_OK, EXIT_NOTHING
 * if the cgroup is prepared already, or the exit code after saying why not: then all is as it was.
 */
int begin(const char *what, const struct controller *c, const struct ccbpf_run *about, bool quiet,
	  struct run *run);

#endif
