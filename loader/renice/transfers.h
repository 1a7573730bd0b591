/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The transfers that were selected, and what became of each: gathered from the records of
 * several walks through several namespaces.
 *
 *	first walk	moves what is selected
 *	second walk	verifies: what was moved is seen again with the new controller; what
 *			the first walk skipped, or what is new, is moved
 *	...		until a walk moves nothing, ten at the most
 */
#ifndef CCBPF_RENICE_TRANSFERS_H
#define CCBPF_RENICE_TRANSFERS_H

#include <stdbool.h>
#include <stddef.h>

#include "renice/iterator.h"

/*
 * What became of a transfer. The order is that of the report; up to WOULD_MOVE each is named, the
 * others are only counted.
 *
 *   X(name, word of JSON, words for a person)
 */
#define RENICE_OUTCOMES(X)                                                             \
	X(REFUSED, "refused", "refused") /* by the kernel */                           \
	X(LOST, "lost", "lost") /* moved, but later it had another controller again */ \
	X(MOVED, "moved", "moved") /* and verified */                                  \
	X(CLOSED, "closed", "moved, then closed") /* before that was verified */       \
	X(WOULD_MOVE, "would_move", "would move")                                      \
	X(UNSTAMPED, "unstamped", "without TCP timestamps")                            \
	X(ELSEWHERE, "elsewhere", "left to a run, a rule, a unit or another program")  \
	X(HAS_IT, "has_it", "have it") /* the controller, already */                   \
	X(LISTENS, "listens", "listens")                                               \
	X(CONNECTS, "connects", "connects")

enum outcome {
#define X(name, word, words) OUTCOME_##name,
	RENICE_OUTCOMES(X)
#undef X
	OUTCOMES
};

struct transfer {
	struct ccbpf_renice_record record; /* `from` is what it had before the first walk */
	enum outcome outcome;
	unsigned int netns; /* index of `places` */
	unsigned int pass; /* that saw it last */
};

/* A namespace that was walked, or could not be. */
struct place {
	ino_t inode;
	char *name;
	int error; /* -errno, or 0 */
	bool unsettled; /* the last walk still moved something */
};

struct transfers {
	const struct ccbpf_renice_config *config;
	struct transfer *all; /* sorted by cookie */
	size_t n;
	struct place *places;
	unsigned int n_places;
	size_t counts[OUTCOMES];
};

/* An outcome in JSON, and for a person. */
const char *outcome_word(enum outcome outcome);
const char *outcome_words(enum outcome outcome);

/*
 * Move, or with `look` in `config` only find, the transfers of all namespaces. Returns
 * EXIT_OK, or the exit code after saying what failed. transfers_free() after either.
 */
int transfers_move(const char *what, const struct iterator *iterator,
		   const struct ccbpf_renice_config *config, struct transfers *out);

void transfers_free(struct transfers *transfers);

#endif
