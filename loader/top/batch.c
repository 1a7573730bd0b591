// SPDX-License-Identifier: GPL-2.0-only
/* What `ccbpf top -b` prints: see batch.h. */
#include "cc/flowjson.h"
#include "out/human.h"
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

static void print_table(const struct view *view, const struct model *model)
{
	bool grouped = view->by != GROUPING_CONTROLLER;
	struct column columns[32] = { { .title = grouping_title(view->by), .elastic = true } };
	const struct text_block *mark = text_mark();
	struct table *table;
	unsigned int n = grouped;

	for (unsigned int i = 0; i < n_top_columns; i++)
		if (in_table(&top_columns[i]))
			columns[n++] = (struct column){ .title = top_columns[i].title,
							.right = top_columns[i].right,
							.elastic = top_columns[i].elastic };
	table = table_new(columns, n);
	for (size_t row = 0; row < view->n_rows; row++) {
		const struct watched *flow = view->rows[row].flow;

		if (!flow)
			continue;
		if (grouped)
			table_styled(table, STYLE_NONE,
				     view_group_name(view, &view->rows[row]) ?: "-");
		for (unsigned int i = 0; i < n_top_columns; i++)
			if (in_table(&top_columns[i]))
				table_styled(table, STYLE_NONE,
					     top_columns[i].cell(flow, model->now_ns));
		text_release(mark); /* the table has copies */
	}
	table_print(table);
	output_line("%zu flow%s, %s bit/s, %zu yield%s", view->sum.flows,
		    view->sum.flows == 1 ? "" : "s", human_bps(view->sum.goodput_bps),
		    sum_yielding(&view->sum), sum_yielding(&view->sum) == 1 ? "s" : "");
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
	add_seconds(doc, "yields_s", yields ? now_ns - w->yielding_since_ns : 0);
	add_seconds(doc, "yielded_s", w->yielded_ns);
	add_seconds(doc, "watched_s", w->watched_ns);
	return doc;
}

static void add_sum(struct json_object *doc, const struct sum *sum)
{
	add_number(doc, "n_flows", sum->flows);
	add_number(doc, "goodput_bps", sum->goodput_bps);
	for (unsigned int i = YIELDING_NOT + 1; i < YIELDING_KINDS; i++)
		add_number(doc, text("yield_to_%s", yielding_word(i)), sum->yielding[i]);
}

/* The sums of the groups: [{"<key>", "n_flows", …}]. */
static struct json_object *groups_json(const struct view *view, const char *key)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < view->n_rows; i++) {
		const struct view_row *row = &view->rows[i];
		struct json_object *one;

		if (row->flow)
			continue;
		one = json_object_new_object();
		add_text(one, key, view_group_name(view, row));
		add_sum(one, &row->sum);
		json_object_array_add(list, one);
	}
	return list;
}

static void print_json(struct view *view, struct model *model)
{
	struct json_object *doc = json_object_new_object();
	const struct text_block *mark = text_mark();
	const enum grouping by = view->by;
	struct json_list *list;

	add_number(doc, "time_ns", model->now_ns);
	view->by = GROUPING_CONTROLLER; /* whose sums are there in any case */
	view_make(view, model);
	json_object_object_add(doc, "controllers", groups_json(view, "controller"));
	view->by = by;
	if (by != GROUPING_CONTROLLER) {
		view_make(view, model);
		json_object_object_add(doc, "groups", groups_json(view, "group"));
	}
	json_object_object_add(doc, "flows", json_object_new_array());
	list = output_json_open(doc);
	for (size_t i = 0; i < view->n_rows; i++) {
		const struct view_row *row = &view->rows[i];
		struct json_object *flow = row->flow ? watched_json(row->flow, model->now_ns)
						     : NULL;

		if (flow && by != GROUPING_CONTROLLER)
			add_text(flow, "group", view_group_name(view, row));
		if (flow)
			output_json_item(list, flow);
		text_release(mark);
	}
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
