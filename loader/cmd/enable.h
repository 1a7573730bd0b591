/* SPDX-License-Identifier: GPL-2.0-only */
/* What other commands need of `enable`. */
#ifndef CCBPF_ENABLE_H
#define CCBPF_ENABLE_H

#include <stdbool.h>

#include "cc/controllers.h"
#include "cc/params.h"

/*
 * Enable a controller with its default parameters unless it is enabled; needs the lock for a
 * change. `*did`: it was not. Returns EXIT_OK, or the exit code after saying why not.
 */
int enable_needed(const struct controller *c, bool *did);

/* Take that back: what it was enabled for has failed. */
void enable_give_back(const struct controller *c);

/* Say that enable_needed() has enabled it. */
void enable_note(const struct controller *c);

/* A controller that is to be enabled with these parameters. */
struct enable_wanted {
	const struct controller *controller;
	struct values values;
	unsigned int line; /* of the file that wants it; 0: of no line */
};

/*
 * Enable several, all or none; none may be enabled. What fails is said with the line of `file`.
 * Needs the lock for a change. Returns EXIT_OK, or the exit code after saying why not.
 */
int enable_with(const char *file, const struct enable_wanted *wanted, unsigned int n);

#endif
