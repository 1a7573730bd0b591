/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commands whose network traffic is that of a daemon, which `ccbpf run` does not reach: a
 * table.
 */
#ifndef CCBPF_DAEMONS_H
#define CCBPF_DAEMONS_H

#include <stdbool.h>

/* What does the work of a command line. */
struct daemon_work {
	const char *command; /* the word that starts it: a pointer of the command line */
	const char *unit; /* the systemd unit; NULL: one that cannot be told from the words */
	bool named; /* the command names the unit */
	bool user; /* ... which is the user's own manager's */
	bool depends; /* on the command's release: some do the work themselves */
};

/* Does a daemon do the work of this command line? Also behind `sudo`, `env`, `nice` and others of this kind;
 * what a shell is told to do is not read, nor variables that a wrapper sets or takes away. */
bool daemon_of(char *const *argv, struct daemon_work *work);

#endif
