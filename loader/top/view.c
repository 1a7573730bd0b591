// SPDX-License-Identifier: GPL-2.0-only
/* What of the model is shown, and in which order: see view.h. */
#include <stdlib.h>
#include <string.h>

#include "cc/flowtext.h"
#include "top/view.h"
#include "util/memory.h"
#include "util/text.h"

const char *view_sort_word(enum view_sort sort)
{
	static const char *const words[] = {
#define X(name, word) word,
		VIEW_SORTS(X)
#undef X
	};

	return words[sort];
}

/* What a flow is sorted by, as a number. */
static double weight(const struct watched *w, enum view_sort sort)
{
	const struct ccbpf_flow *f = &w->flow.record;

	switch (sort) {
	case VIEW_SORT_RATE:
		return w->goodput_bps;
	case VIEW_SORT_YIELDED:
		return w->watched_ns ? (double)w->yielded_ns / w->watched_ns : 0;
	case VIEW_SORT_DELAY:
		return f->delay_smoothed_us;
	case VIEW_SORT_CWND:
		return f->cwnd;
	case VIEW_SORT_AGE:
		return -(double)f->started_ns;
	case VIEW_SORT_PORT:
		return f->remote_port;
	default:
		return 0;
	}
}

/* A total order, so that what is equal keeps its place. */
static int by_start(const struct watched *x, const struct watched *y)
{
	uint64_t a = x->flow.record.started_ns, b = y->flow.record.started_ns;

	if (a != b)
		return a < b ? -1 : 1;
	return x->flow.key < y->flow.key ? -1 : x->flow.key > y->flow.key;
}

static int by_group(const struct view *view, const struct watched *x, const struct watched *y)
{
	uint64_t a = x->group[view->by], b = y->group[view->by];

	return a < b ? -1 : a > b;
}

static int by_rank(const void *a, const void *b, void *data)
{
	const struct watched *x = *(struct watched *const *)a, *y = *(struct watched *const *)b;

	if (by_group(data, x, y))
		return by_group(data, x, y);
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return by_start(x, y);
}

static int by_weight(const void *a, const void *b, void *data)
{
	const struct watched *x = *(struct watched *const *)a, *y = *(struct watched *const *)b;
	const struct view *view = data;
	double p = weight(x, view->sort), q = weight(y, view->sort);

	if (by_group(view, x, y))
		return by_group(view, x, y);
	if (!x->ended_ns != !y->ended_ns)
		return x->ended_ns ? 1 : -1;
	if (p != q)
		return (p > q) != view->reversed ? -1 : 1;
	return by_start(x, y);
}

static bool is_named(const struct view *view, const struct watched *w)
{
	for (unsigned int i = 0; i < view->n_named; i++)
		if (w->flow.record.kind == view->named[i]->kind)
			return true;
	return view->n_named == 0;
}

/* "" where it is not known. */
static const char *owner_name(const struct view *view, const struct watched *w, enum grouping by)
{
	return owners_name(&view->owners, by, w->group[by]) ?: "";
}

/* Does any word of the flow, or the name of its cgroup or process, hold the filter? */
static bool passes(const struct view *view, const struct watched *w)
{
	const struct ccbpf_flow *f = &w->flow.record;
	const char *cgroup = owner_name(view, w, GROUPING_CGROUP);
	const char *process = owner_name(view, w, GROUPING_PROCESS);
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
static size_t choose(const struct view *view, struct watched **all, size_t n, struct watched *flows,
		     size_t n_flows)
{
	for (size_t i = 0; i < n_flows; i++)
		if (passes(view, &flows[i]))
			all[n++] = &flows[i];
	return n;
}

/* The flows that are shown, in order. */
static struct watched **ordered(struct view *view, struct model *model, size_t *n)
{
	struct watched **all = must_alloc(model->n + model->n_ended + 1, sizeof(struct watched *));

	*n = choose(view, all, 0, model->flows, model->n);
	*n = choose(view, all, *n, model->ended, model->n_ended);
	qsort_r(all, *n, sizeof(struct watched *),
		view->frozen && !view->resort ? by_rank : by_weight, view);
	view->resort = false;
	for (size_t i = 0; i < *n; i++)
		all[i]->rank = i;
	return all;
}

void view_make(struct view *view, struct model *model)
{
	struct view_row *head = NULL;
	size_t n;
	struct watched **all = ordered(view, model, &n);

	free(view->rows);
	view->rows = must_alloc(2 * n ?: 1, sizeof(*view->rows)); /* at most a head for each */
	view->n_rows = 0;
	view->sum = (struct sum){ 0 };
	for (size_t i = 0; i < n; i++) {
		struct view_row row = { .group = all[i]->group[view->by],
					.controller = all[i]->flow.record.controller };

		if (!head || head->group != row.group) {
			head = &view->rows[view->n_rows++];
			*head = row;
		}
		sum_add(&head->sum, all[i]);
		sum_add(&view->sum, all[i]);
		row.flow = all[i];
		row.id = watched_id(all[i]);
		if (!folds_has(&view->folds, row.group))
			view->rows[view->n_rows++] = row;
	}
	free(all);
}

void view_sort_by(struct view *view, enum view_sort sort, bool reversed)
{
	view->sort = sort;
	view->reversed = reversed;
	view->resort = true;
}

void view_group_by(struct view *view, enum grouping by)
{
	view->by = by;
	folds_clear(&view->folds);
}

const char *view_group_name(const struct view *view, const struct view_row *row)
{
	if (view->by == GROUPING_CONTROLLER)
		return text("%.*s", CCBPF_NAME_LEN, row->controller);
	return owners_name(&view->owners, view->by, row->group);
}

bool view_needs_owners(const struct view *view)
{
	return view->by != GROUPING_CONTROLLER || *view->filter;
}

void view_free(struct view *view)
{
	free(view->rows);
	view->rows = NULL;
	folds_clear(&view->folds);
	owners_free(&view->owners);
}
