/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commands whose network traffic is that of a daemon, which `ccbpf run` does not reach: a
 * table.
 */
#ifndef CCBPF_DAEMONS_H
#define CCBPF_DAEMONS_H

#include <stdbool.h>

struct daemon_command {
	const char *command; /* the program's name, without its path */
	const char *unit; /* the systemd unit that does the work; NULL: one that the command names */
	const char *only; /* only with this word among its arguments; NULL: always */
};

/* The row for a command line, or NULL. */
const struct daemon_command *daemon_of(char *const *argv);

#endif
