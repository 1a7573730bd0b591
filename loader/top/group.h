/* SPDX-License-Identifier: GPL-2.0-only */
/* What the flows of `ccbpf top` are grouped by, and which groups are folded. */
#ifndef CCBPF_TOP_GROUP_H
#define CCBPF_TOP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, "word") */
#define GROUPINGS(X)                \
	X(CONTROLLER, "controller") \
	X(CGROUP, "cgroup")         \
	X(PROCESS, "process")

enum grouping {
#define X(name, word) GROUPING_##name,
	GROUPINGS(X)
#undef X
	GROUPING_KINDS
};

const char *grouping_word(enum grouping by);
const char *grouping_title(enum grouping by); /* of a column: "CGROUP" */

/*
 * A group is named by a number: the controller's kind, the kernel's id of the cgroup, the id of
 * the process. The last in every order is that of the flows of which it is not known.
 */
#define GROUP_UNKNOWN UINT64_MAX

/* Folded are those in `except`, or with `all` those that are not. */
struct folds {
	bool all;
	uint64_t *except;
	size_t n;
};

bool folds_has(const struct folds *folds, uint64_t group);
void folds_set(struct folds *folds, uint64_t group, bool folded);

/* Fold all, or unfold all if any is folded. */
void folds_toggle_all(struct folds *folds);

/* Nothing is folded. */
void folds_clear(struct folds *folds);

#endif
