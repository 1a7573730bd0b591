// SPDX-License-Identifier: GPL-2.0-only
/* What of the model is shown: see view.h. */
#include <stdlib.h>
#include <string.h>

#include "cc/flowtext.h"
#include "top/view.h"
#include "util/memory.h"
#include "util/text.h"

static bool is_named(const struct view *view, const struct watched *w)
{
	for (unsigned int i = 0; i < view->n_named; i++)
		if (w->flow.record.kind == view->named[i]->kind)
			return true;
	return view->n_named == 0;
}

/* "" where it is not known. */
static const char *owner_name(const struct view *view, const struct watched *w,
			      enum group_kind kind)
{
	return owners_name(&view->owners, kind, w->group[kind]) ?: "";
}

/* Does any word of the flow, or the name of its cgroup or process, hold the filter? */
static bool passes(const struct view *view, const struct watched *w)
{
	const struct ccbpf_flow *f = &w->flow.record;
	const char *cgroup = owner_name(view, w, GROUP_CGROUP);
	const char *process = owner_name(view, w, GROUP_PROCESS);
	const struct text_block *mark;
	bool found;

	if (!is_named(view, w))
		return false;
	if (!*view->filter)
		return true;
	if (strcasestr(cgroup, view->filter) || strcasestr(process, view->filter))
		return true;
	mark = text_mark();
	found = strcasestr(text("%.*s %s %s %s %s", CCBPF_NAME_LEN, f->controller,
				endpoint(f->family, f->local_addr, f->local_port),
				endpoint(f->family, f->remote_addr, f->remote_port),
				phase_word(f->phase), yielding_word(w->yielding)),
			   view->filter);
	text_release(mark);
	return found;
}

/* Those of some flows that are shown, behind `n` others. Returns how many there are then. */
static size_t choose(const struct view *view, struct placed *all, size_t n, struct watched *flows,
		     size_t n_flows)
{
	for (size_t i = 0; i < n_flows; i++)
		if (passes(view, &flows[i]))
			all[n++].flow = &flows[i];
	return n;
}

/* The lines of a flow's groups, unless the flow before it has them. Returns whether one is folded. */
static bool add_heads(struct view *view, const struct placed *placed, const struct placed *before)
{
	bool folded = false;

	for (unsigned int level = 0; level < placed->group.depth; level++) {
		const struct head *head = placed->heads[level];

		if (!folded && (!before || before->heads[level] != head))
			view->rows[view->n_rows++] =
				(struct view_row){ .id.group = head->group, .head = head };
		folded |= folds_has(&view->folds, &head->group);
	}
	return folded;
}

void view_make(struct view *view, struct model *model)
{
	struct placed *flows = must_alloc(model->n + model->n_ended + 1, sizeof(*flows));
	size_t n_heads, n = choose(view, flows, 0, model->flows, model->n);

	n = choose(view, flows, n, model->ended, model->n_ended);
	free(view->heads);
	view->heads = order_flows(&view->order, flows, n, &n_heads);
	free(view->rows);
	view->rows = must_alloc(n + n_heads + 1, sizeof(*view->rows));
	view->n_rows = 0;
	view->sum = (struct sum){ 0 };
	for (size_t i = 0; i < n; i++) {
		const struct placed *placed = &flows[i];

		sum_add(&view->sum, placed->flow);
		if (!add_heads(view, placed, i ? placed - 1 : NULL))
			view->rows[view->n_rows++] = (struct view_row){
				.id = { placed->group, watched_id(placed->flow) },
				.head = placed->heads[placed->group.depth - 1],
				.flow = placed->flow,
			};
	}
	free(flows);
}

void view_find(const struct view *view, const struct view_id *id, size_t *at)
{
	const struct flow_id none = { 0 };
	bool of_flow = !flow_id_is(&id->flow, &none);

	for (size_t i = 0; i < view->n_rows; i++) {
		const struct view_id *row = &view->rows[i].id;

		if (of_flow && flow_id_is(&row->flow, &id->flow)) {
			*at = i;
			return;
		}
		if (!view->rows[i].flow && group_within(&id->group, &row->group))
			*at = i;
	}
}

void view_sort_by(struct view *view, enum order_by sort, bool reversed)
{
	view->order.sort = sort;
	view->order.reversed = reversed;
	view->order.resort = true;
}

void view_group_by(struct view *view, enum grouping by)
{
	view->order.by = by;
	folds_clear(&view->folds);
}

bool view_needs_owners(const struct view *view)
{
	return view_mixes(view) || *view->filter;
}

bool view_mixes(const struct view *view)
{
	return view->order.by != GROUPING_CONTROLLER;
}

const char *view_group_name(const struct view *view, const struct view_row *row, unsigned int level)
{
	enum group_kind kind = grouping_kind(view->order.by, level);

	if (level >= row->id.group.depth)
		return NULL;
	if (kind == GROUP_CONTROLLER)
		return text("%.*s", CCBPF_NAME_LEN, row->head->controller);
	return owners_name(&view->owners, kind, row->id.group.of[level]);
}

void view_free(struct view *view)
{
	free(view->rows);
	free(view->heads);
	view->rows = NULL;
	view->heads = NULL;
	folds_clear(&view->folds);
	owners_free(&view->owners);
}
