/* SPDX-License-Identifier: GPL-2.0-only */
/* Which transfers `ccbpf renice` moves: the options, checked. */
#ifndef CCBPF_RENICE_SELECTION_H
#define CCBPF_RENICE_SELECTION_H

#include <stddef.h>
#include <stdint.h>

#include "ccbpf/renice.h"

/* What the command line says. NULL: not given. */
struct selection_words {
	const char *to; /* the new controller; NULL: downloads */
	char *const *pids;
	unsigned int n_pids;
	const char *cgroup, *dst, *port, *from;
};

struct selection {
	struct ccbpf_renice_config config;
	uint64_t *inodes; /* of the sockets of --pid; may hold one twice */
	size_t n_inodes;
};

/*
 * Check the words and look up what they name. Returns EXIT_OK, or the exit code after
 * saying what is wrong. selection_free() after either.
 */
int selection_parse(const char *what, const struct selection_words *words,
		    struct selection *selection);

void selection_free(struct selection *selection);

#endif
