/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A command as a child of this process, as if its caller had started it.
 *
 * The child stays in the process group of this process, so that the terminal and the shell's
 * job control treat the two as one job:
 *
 *   the terminal sends a signal (Ctrl-C)   both get it; this process leaves it to the child
 *   the terminal goes                      if this process is the session leader, it alone gets SIGHUP
 *                                          and SIGCONT, and sends them on; otherwise both get them
 *   a process signals the group or cgroup  both get it; this process leaves it to the child (witness.h)
 *   this process gets any other signal     it is sent on to the child
 *   this process has timers (alarm())      the child gets them when it starts
 *   the child is stopped                   this process stops as well; continued, it continues the child
 *   the child ends                         child_end_like() ends this process in the same way
 */
#ifndef CCBPF_CHILD_H
#define CCBPF_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "sys/user.h"

/* Before main() changes any: what the child gets back. */
void child_remember_signals(void);

/* Whether a command is not there: it is no path, and no directory of PATH has it. */
bool child_unknown(const char *command);

/*
 * Start argv[0], found in PATH, in the cgroup behind `cgroup_fd`, as `user`. Returns 0 and its
 * id, or -errno where it could not be started; `*step` says what failed, NULL: the command
 * itself could not be executed.
 */
int child_start(char **argv, int cgroup_fd, const struct user *user, pid_t *pid, const char **step);

/* Become argv[0], found in PATH, without a child. Returns only where that fails: -errno. */
int child_none(char **argv);

/* Wait for its end. Returns its status, as waitpid() has it. */
int child_wait(pid_t pid);

/* The exit code for a status; a child that a signal has ended ends this process by it. */
int child_end_like(int status);

#endif
