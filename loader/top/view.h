/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What of the model is shown: groups with their sums and the flows in them, filtered, in order, folded.
 * It knows no terminal.
 */
#ifndef CCBPF_TOP_VIEW_H
#define CCBPF_TOP_VIEW_H

#include "cc/flowkinds.h"
#include "top/group.h"
#include "top/model.h"
#include "top/order.h"
#include "top/owners.h"

#define VIEW_FILTER_MOST 64

/* What a line is of, also after the next sample. */
struct view_id {
	struct group group; /* the innermost */
	struct flow_id flow; /* 0: the line of the group */
};

/* A line: of a group, or of a flow. */
struct view_row {
	struct view_id id;
	const struct head *head; /* of the group */
	struct watched *flow; /* NULL: the line of the group */
};

struct view {
	const struct flow_kind *named[CCBPF_KINDS]; /* only these, if there are any */
	unsigned int n_named;
	char filter[VIEW_FILTER_MOST];
	struct order order;
	struct folds folds; /* groups of which nothing else is shown */
	struct owners owners;

	struct view_row *rows;
	size_t n_rows;
	struct head *heads; /* of all groups */
	struct sum sum; /* of all that pass the filter */
};

/* Make the rows anew. Their flows are valid until the model's next sample. */
void view_make(struct view *view, struct model *model);

/* The row of this, else of the innermost group that it is in. `*at` stays if there is none. */
void view_find(const struct view *view, const struct view_id *id, size_t *at);

/* Sort by something else; a frozen order is that one from then on. */
void view_sort_by(struct view *view, enum order_by sort, bool reversed);

/* Group by something else. */
void view_group_by(struct view *view, enum grouping by);

/* Must it know the cgroups and processes of the flows? */
bool view_needs_owners(const struct view *view);

/* Are the flows of a group of several controllers? */
bool view_mixes(const struct view *view);

/* The name of the group that a row is in, at a level, a text(); NULL: it is not known. */
const char *view_group_name(const struct view *view, const struct view_row *row,
			    unsigned int level);

void view_free(struct view *view);

#endif
