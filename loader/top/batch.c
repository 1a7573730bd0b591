// SPDX-License-Identifier: GPL-2.0-only
/* What `ccbpf top -b` prints: see batch.h. */
#include "cc/flowjson.h"
#include "out/json.h"
#include "out/table.h"
#include "top/batch.h"
#include "top/columns.h"
#include "util/text.h"

#define WIDTH 130 /* of a screen, as if; the table shortens addresses */

static bool in_table(const struct top_column *column)
{
	return top_column_shown(column, WIDTH, true) && column->width != TOP_BAR; /* for eyes */
}

/* The groups of a line come before its columns; of controllers there is a column. */
static unsigned int levels_before(const struct view *view)
{
	return view_mixes(view) ? grouping_levels(view->order.by) : 0;
}

static void fill_table(struct table *table, const struct view *view, uint64_t now_ns)
{
	const struct text_block *mark = text_mark();

	for (size_t i = 0; i < view->n_rows; i++) {
		const struct view_row *row = &view->rows[i];

		for (unsigned int level = 0; row->flow && level < levels_before(view); level++)
			table_styled(table, STYLE_NONE, view_group_name(view, row, level) ?: "-");
		for (unsigned int j = 0; row->flow && j < n_top_columns; j++)
			if (in_table(&top_columns[j]))
				table_styled(table, STYLE_NONE,
					     top_columns[j].cell(row->flow, now_ns));
		text_release(mark); /* the table has copies */
	}
}

/* The groups, each with its sums. */
static void print_groups(const struct view *view)
{
	for (size_t i = 0; levels_before(view) && i < view->n_rows; i++) {
		const struct view_row *row = &view->rows[i];
		unsigned int level = row->id.group.depth - 1;

		if (!row->flow)
			output_line("%*s%s: %s", 2 * (int)level, "",
				    view_group_name(view, row, level) ?: "unknown",
				    sum_words(&row->head->sum));
	}
}

static void print_table(const struct view *view, const struct model *model)
{
	struct column columns[32];
	struct table *table;
	unsigned int n = 0;

	for (unsigned int level = 0; level < levels_before(view); level++)
		columns[n++] = (struct column){
			.title = group_title(grouping_kind(view->order.by, level)),
			.elastic = true,
		};
	for (unsigned int i = 0; i < n_top_columns; i++)
		if (in_table(&top_columns[i]))
			columns[n++] = (struct column){ .title = top_columns[i].title,
							.right = top_columns[i].right,
							.elastic = top_columns[i].elastic };
	table = table_new(columns, n);
	fill_table(table, view, model->now_ns);
	table_print(table);
	print_groups(view);
	output_line("%s", sum_words(&view->sum));
	output_line("%s", "");
}

static void add_seconds(struct json_object *doc, const char *key, uint64_t ns)
{
	json_object_object_add(doc, key, json_object_new_double(ns / 1e9));
}

static struct json_object *watched_json(const struct watched *w, uint64_t now_ns)
{
	struct json_object *doc = flow_json(&w->flow);
	bool yields = w->yielding != YIELDING_NOT;

	json_object_object_add(doc, "goodput_bps",
			       w->goodput_known ? json_object_new_uint64(w->goodput_bps) : NULL);
	add_text(doc, "yields_to", yields ? yielding_word(w->yielding) : NULL);
	add_seconds(doc, "yields_s", watched_yields_ns(w, now_ns));
	add_seconds(doc, "yielded_s", w->flow.record.life.yielded_ns);
	add_seconds(doc, "age_s", watched_age_ns(w, now_ns));
	return doc;
}

static void add_sum(struct json_object *doc, const struct sum *sum)
{
	add_number(doc, "n_flows", sum->flows);
	add_number(doc, "goodput_bps", sum->goodput_bps);
	for (unsigned int i = YIELDING_NOT + 1; i < YIELDING_KINDS; i++)
		add_number(doc, text("yield_to_%s", yielding_word(i)), sum->yielding[i]);
}

/* What a group of a level is called: in a tree by its kind. */
static const char *group_key(const struct view *view, unsigned int level)
{
	enum group_kind kind = grouping_kind(view->order.by, level);

	return kind == GROUP_CONTROLLER || grouping_levels(view->order.by) > 1 ? group_word(kind)
									       : "group";
}

static struct json_object *group_json(const struct view *view, const struct view_row *row,
				      unsigned int level)
{
	struct json_object *one = json_object_new_object();

	add_text(one, group_key(view, level), view_group_name(view, row, level));
	add_sum(one, &row->head->sum);
	return one;
}

/* The groups with their sums: [{"cgroup", "n_flows", …, "processes": [{"process", …}]}]. */
static struct json_object *groups_json(const struct view *view)
{
	struct json_object *list = json_object_new_array(), *within = NULL;

	for (size_t i = 0; i < view->n_rows; i++) {
		const struct view_row *row = &view->rows[i];
		struct json_object *one;

		if (row->flow)
			continue;
		one = group_json(view, row, row->id.group.depth - 1);
		json_object_array_add(row->id.group.depth > 1 ? within : list, one);
		if (grouping_levels(view->order.by) > row->id.group.depth)
			json_object_object_add(one, "processes", within = json_object_new_array());
	}
	return list;
}

static void print_flows(const struct view *view, const struct model *model, struct json_list *list)
{
	const struct text_block *mark = text_mark();

	for (size_t i = 0; i < view->n_rows; i++) {
		const struct view_row *row = &view->rows[i];
		struct json_object *flow;

		if (!row->flow)
			continue;
		flow = watched_json(row->flow, model->now_ns);
		for (unsigned int level = 0; level < levels_before(view); level++)
			add_text(flow, group_key(view, level), view_group_name(view, row, level));
		output_json_item(list, flow);
		text_release(mark);
	}
}

static void print_json(struct view *view, struct model *model)
{
	struct json_object *doc = json_object_new_object();
	const enum grouping by = view->order.by;
	struct json_list *list;

	add_number(doc, "time_ns", model->now_ns);
	view->order.by = GROUPING_CONTROLLER; /* whose sums are there in any case */
	view_make(view, model);
	json_object_object_add(doc, "controllers", groups_json(view));
	view->order.by = by;
	if (view_mixes(view)) {
		view_make(view, model);
		json_object_object_add(doc, "groups", groups_json(view));
	}
	json_object_object_add(doc, "flows", json_object_new_array());
	list = output_json_open(doc);
	print_flows(view, model, list);
	output_json_close(list);
}

void batch_print(struct view *view, struct model *model)
{
	if (output.json) {
		print_json(view, model);
		return;
	}
	view_make(view, model);
	print_table(view, model);
}
