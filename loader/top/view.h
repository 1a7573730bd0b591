/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What of the model is shown, and in which order: the flows of each group under a line of their
 * own, filtered, sorted, folded; those that have ended come last. It knows no terminal.
 */
#ifndef CCBPF_TOP_VIEW_H
#define CCBPF_TOP_VIEW_H

#include "cc/flowkinds.h"
#include "top/group.h"
#include "top/model.h"
#include "top/owners.h"

/* What flows are sorted by: X(NAME, "word"). The largest come first. */
#define VIEW_SORTS(X)         \
	X(RATE, "rate")       \
	X(YIELDED, "yielded") \
	X(DELAY, "delay")     \
	X(CWND, "cwnd")       \
	X(AGE, "age")         \
	X(PORT, "port")

enum view_sort {
#define X(name, word) VIEW_SORT_##name,
	VIEW_SORTS(X)
#undef X
	VIEW_SORT_KINDS
};

#define VIEW_FILTER_MOST 64

/* A line: of a group, or of a flow. */
struct view_row {
	uint64_t group;
	const char *controller; /* the controller's name as its records have it */
	struct watched *flow; /* NULL: the line of the group */
	struct flow_id id; /* of the flow */
	struct sum sum; /* of its flows, for that line */
};

struct view {
	const struct flow_kind *named[CCBPF_KINDS]; /* only these, if there are any */
	unsigned int n_named;
	enum view_sort sort;
	bool reversed;
	bool frozen; /* keep the order; new flows come last */
	bool resort; /* once, also if it is frozen */
	char filter[VIEW_FILTER_MOST];
	enum grouping by;
	struct folds folds; /* groups whose flows are not shown */
	struct owners owners;

	struct view_row *rows;
	size_t n_rows;
	struct sum sum; /* of all that pass the filter */
};

/* Make the rows anew. Their pointers are valid until the model's next sample. */
void view_make(struct view *view, struct model *model);

/* Sort by something else; a frozen order is that one from then on. */
void view_sort_by(struct view *view, enum view_sort sort, bool reversed);

/* Group by something else. */
void view_group_by(struct view *view, enum grouping by);

/* Must it know the cgroups and processes of the flows? */
bool view_needs_owners(const struct view *view);

/* The name of a row's group, a text(); NULL: it is not known. */
const char *view_group_name(const struct view *view, const struct view_row *row);

const char *view_sort_word(enum view_sort sort);

void view_free(struct view *view);

#endif
