/* SPDX-License-Identifier: GPL-2.0-only */
/* What the flows of `ccbpf top` are grouped by, and which groups are folded. */
#ifndef CCBPF_TOP_GROUP_H
#define CCBPF_TOP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a group is: X(NAME, "word") */
#define GROUPS(X)             \
	X(CGROUP, "cgroup")   \
	X(PROCESS, "process") \
	X(CONTROLLER, "controller")

enum group_kind {
#define X(name, word) GROUP_##name,
	GROUPS(X)
#undef X
	GROUP_KINDS,
	GROUP_NONE = GROUP_KINDS
};

const char *group_word(enum group_kind kind);
const char *group_title(enum group_kind kind); /* of a column: "CGROUP" */

#define GROUP_LEVELS 2 /* at most: groups, and groups within them */

/* X(NAME, "word", "what it is, for a person", the groups, those within them) */
#define GROUPINGS(X)                                           \
	X(TREE, "tree", "cgroup and process", CGROUP, PROCESS) \
	X(CGROUP, "cgroup", "cgroup", CGROUP, NONE)            \
	X(PROCESS, "process", "process", PROCESS, NONE)        \
	X(CONTROLLER, "controller", "controller", CONTROLLER, NONE)

enum grouping {
#define X(name, word, words, outer, inner) GROUPING_##name,
	GROUPINGS(X)
#undef X
	GROUPING_KINDS
};

const char *grouping_words(enum grouping by);
unsigned int grouping_levels(enum grouping by);
enum group_kind grouping_kind(enum grouping by, unsigned int level); /* from 0 */

/*
 * A group of a kind is named by a number: the kernel's id of the cgroup, the id of the process, the
 * controller's kind. The last in every order is that of the flows of which it is not known.
 */
#define GROUP_UNKNOWN UINT64_MAX

/* A group, with the one that it is in. Groups of the same process in two cgroups are two groups. */
struct group {
	uint64_t of[GROUP_LEVELS];
	unsigned int depth; /* from 1; 2: it is within of[0] */
};

/* Is it this group, or in it? */
bool group_within(const struct group *group, const struct group *outer);
bool group_is(const struct group *a, const struct group *b);

/* Folded are the groups of some depths; those in `except` the other way round. */
struct folds {
	unsigned int from; /* those of this depth and deeper; 0: none */
	struct group *except;
	size_t n;
};

bool folds_has(const struct folds *folds, const struct group *group);
void folds_set(struct folds *folds, const struct group *group, bool folded);

/*
 * Fold the innermost level that is open, of `levels`; unfold all if none is, or if any group was set.
 */
void folds_next(struct folds *folds, unsigned int levels);

/* Nothing is folded. */
void folds_clear(struct folds *folds);

#endif
