/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What of the model is shown, and in which order: the flows of each controller under a line of
 * their own, filtered, sorted, folded. It knows no terminal.
 */
#ifndef CCBPF_TOP_VIEW_H
#define CCBPF_TOP_VIEW_H

#include "cc/controllers.h"
#include "top/model.h"

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

/* A line: of a controller, or of a flow. */
struct view_row {
	uint32_t kind;
	const char *controller; /* the controller's name as its records have it */
	struct watched *flow; /* NULL: the line of the controller */
	struct sum sum; /* of its flows, for that line */
};

struct view {
	const struct controller *named[CCBPF_KINDS]; /* only these, if there are any */
	unsigned int n_named;
	enum view_sort sort;
	bool reversed;
	bool frozen; /* keep the order; new flows come last */
	bool resort; /* once, also if it is frozen */
	char filter[VIEW_FILTER_MOST];
	uint64_t folded; /* a bit for each kind: its flows are not shown */

	struct view_row *rows;
	size_t n_rows;
	struct sum sum; /* of all that pass the filter */
	unsigned int n_controllers;
};

/* Make the rows anew. They point into the model: valid until its next sample. */
void view_make(struct view *view, struct model *model);

/* Sort by something else; a frozen order is that one from then on. */
void view_sort_by(struct view *view, enum view_sort sort, bool reversed);

/* Fold or unfold a controller's flows; all of them. */
void view_fold(struct view *view, uint32_t kind);
void view_fold_all(struct view *view);

const char *view_sort_word(enum view_sort sort);

void view_free(struct view *view);

#endif
