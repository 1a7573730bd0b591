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
	/* If not NULL: only with one of these options before its first word, or with one of these
	 * variables in the environment. */
	const char *const *only;
	const char *const *variables;
	bool depends; /* on its release: some do the work themselves */
};

/* The row for a command line, or NULL. It reads the environment, which the command will have. */
const struct daemon_command *daemon_of(char *const *argv);

#endif
