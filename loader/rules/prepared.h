/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A prepared cgroup: how somebody without privilege runs commands in the background.
 *
 *   ccbpf run --prepare USER   an administrator makes <delegated>/ccbpf-run-for-<controller>,
 *                              attaches the program of a run to it, and then gives the user
 *                              its cgroup.procs, and nothing else
 *   ccbpf run COMMAND          without privilege: moves itself there, and becomes the command
 *
 * Why that is safe: the kernel lets somebody without privilege move a process only if they may
 * write cgroup.procs of the cgroup that it comes to, and of the nearest one above both. So the
 * user can move there what is below <delegated>, which was the user's before, and nothing else.
 * No BPF and no pin is reachable for the user; the controller is fixed, and never a restricted
 * one. The directory is root's, so that one made by somebody else is told from it.
 */
#ifndef CCBPF_PREPARED_H
#define CCBPF_PREPARED_H

#include <stdbool.h>

#include "ccbpf/rule.h"

/* Whether that is the path of one. */
bool prepared_is(const char *cgroup);

/*
 * Where it is to be, into `about`, whose choice is set: `given` is a user's name or number, for
 * the cgroup that systemd delegates to the user's manager, or the path of a delegated cgroup.
 * By `sudo netnice` it must be the caller's own: that is no administrator (sys/user.h). Returns
 * EXIT_OK, or the exit code after saying why not.
 */
int prepared_plan(const char *what, const char *given, struct ccbpf_run *about);

/* Give its cgroup.procs to its user: once the program is attached. Returns 0 or -errno. */
int prepared_open(const struct ccbpf_run *about);

/*
 * Take that back, before the program goes. Returns whether it is there: its user may have
 * removed it, and made one of that name, which is left alone.
 */
bool prepared_shut(const char *cgroup);

/*
 * Move this process to the one for this choice. Returns 0, -ENOENT where there is none, or
 * -EACCES where this process is not in the delegated cgroup; `path` (CCBPF_CGROUP_LEN bytes)
 * is then the one that is out of reach.
 */
int prepared_enter(const struct ccbpf_choice *choice, char *path);

/* Whether there is one for this choice and for the user of this process, in reach or not. */
bool prepared_exists(const struct ccbpf_choice *choice);

#endif
