// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is drawn: see screen.h.
 *
 *   line 0     all flows together
 *   line 1     how they are shown, or the filter while it is typed
 *   line 2     the titles of the columns
 *   line 3…    a line for each group, and below it its groups or flows
 *
 * In the place of all that: the help, or the detail of a flow (detail.h).
 */
#include <curses.h>
#include <string.h>

#include "out/human.h"
#include "top/columns.h"
#include "top/detail.h"
#include "top/screen.h"
#include "top/terminal.h"
#include "util/text.h"

#define HEAD 3 /* lines above the rows */
#define INDENT 2 /* of a line, for each group that it is in */
#define LINE_MOST 512 /* bytes; what a wider screen has is left empty */

static const char *const help[] = {
	"ccbpf top: the live flows of our controllers",
	"",
	"  g  group by cgroup with process, cgroup alone, process alone, controller",
	"  -, +, left, right  fold, unfold a group    a  fold a level more; unfold all",
	"  Enter  a flow in detail; a group: fold, unfold it    Esc  leave the detail",
	"  s  sort by the next column    r  reverse    f  freeze the order, or not",
	"  /  filter by cgroup (unit), process, controller, address, port, phase, yield",
	"  p  pause, or go on    up, down, j, k, PgUp, PgDn, Home, End  move    q  quit",
	"",
	"  BIT/S     acknowledged payload, over the last period",
	"  CWND      congestion window, packets",
	"  SRTT ms   round-trip time, smoothed by the kernel",
	"  DELAY     queueing delay: smoothed/threshold, and as a bar. ! is above the",
	"            threshold; - where the controller has none",
	"  PHASE     what the controller does",
	"  YIELD     to what the flow yields now: delay, mark or loss",
	"  FOR       for how long it has yielded",
	"  PART      part of the time in which it yielded, since its controller took it",
	"            over, or since the download began",
	"  INDIC     early reductions; LOSSES, MARKS: reductions by these",
	"  RETRANS   retransmitted packets",
	"  A wider screen also has CONTROLLER, SRTT, DELAY as figures, local addresses,",
	"  AGE and the counters. A flow that has ended is shown for 10 s, in no sum.",
	"  Any key goes back.",
};

size_t screen_room(void)
{
	return LINES > HEAD + 1 ? LINES - HEAD : 1;
}

/* Without its middle, if it is wider than that. */
static const char *shortened(const char *string, int width)
{
	int length = strlen(string), head = (width - 1) / 2;

	if (length <= width || width < 1)
		return string;
	return text("%.*s~%s", head, string, string + length - (width - 1 - head));
}

/* Behind what is in the line, a space between: as wide as the column. */
static void add_cell(char *line, const char *cell, int width, bool right)
{
	append(line, LINE_MOST, "", right ? "%*s " : "%-*s ", width, shortened(cell, width));
}

/* Of the lines of flows: their groups are before them. */
static int margin(const struct view *view)
{
	return INDENT * grouping_levels(view->order.by);
}

#define LESS_MOST 2 /* columns: with these there is room for any IPv4 address with its port */

/* Columns of the screen that each elastic column has beyond its least; negative: so many less. */
static int spare(const struct view *view, int screen_width)
{
	int used = margin(view), elastic = 0, more;
	bool mixed = view_mixes(view);

	for (unsigned int i = 0; i < n_top_columns; i++) {
		const struct top_column *column = &top_columns[i];

		if (!top_column_shown(column, screen_width, mixed))
			continue;
		used += column->width + 1;
		elastic += column->elastic;
	}
	/* No space behind the last one; "[IPv6]:port" needs no more than 24 beyond 23. */
	used--;
	more = elastic ? (screen_width - used) / elastic : 0;
	return more > 24 ? 24 : more < -LESS_MOST ? -LESS_MOST : more;
}

/* The titles, or with `flow` its cells; with `who` only those that say which flow it is. */
static const char *columns_line(const struct view *view, const struct watched *flow,
				uint64_t now_ns, bool who)
{
	char line[LINE_MOST] = "";
	int more = spare(view, COLS);
	bool mixed = view_mixes(view);

	append(line, sizeof(line), "", "%*s", margin(view), "");
	for (unsigned int i = 0; i < n_top_columns; i++) {
		const struct top_column *column = &top_columns[i];

		if (top_column_shown(column, COLS, mixed) && (!who || column->who))
			add_cell(line, flow ? column->cell(flow, now_ns) : column->title,
				 column->width + (column->elastic ? more : 0), column->right);
	}
	return text("%s", line);
}

/* Of a flow that has ended its totals: as many as there is room for. */
static const char *ended_line(const struct view *view, const struct watched *w, uint64_t now_ns)
{
	const struct ccbpf_flow *f = &w->flow.record;
	const char *const totals[] = {
		watched_ended(w, now_ns),
		text(": %s", human_bytes(f->bytes_acked)),
		text(" in %s", human_age(watched_age_ns(w, now_ns))),
		text(", yielded %.0f%%", 100 * w->yielded),
		text(", losses %u", f->losses),
		text(", marks %u", f->marks),
		text(", indications %u", f->indications),
		text(", retransmits %u", f->retransmits),
	};
	char line[LINE_MOST] = "";

	append(line, sizeof(line), "", "%s", columns_line(view, w, now_ns, true));
	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		if ((int)(strlen(line) + strlen(totals[i])) > COLS)
			break;
		append(line, sizeof(line), "", "%s", totals[i]);
	}
	return text("%s", line);
}

static const char *state_line(const struct screen *screen)
{
	const struct view *view = &screen->view;

	if (screen->edits)
		return text("filter: %s_  (Enter: done, Esc: none)", view->filter);
	return text("grouped by %s, sorted by %s%s%s%s%s%s   ? help",
		    grouping_words(view->order.by), order_word(view->order.sort),
		    view->order.reversed ? ", reversed" : "", view->order.frozen ? ", FROZEN" : "",
		    screen->paused ? ", PAUSED" : "", *view->filter ? ", filter: " : "",
		    view->filter);
}

static enum look look_of(const struct view_row *row)
{
	if (!row->flow)
		return LOOK_GROUP;
	if (row->flow->ended_ns)
		return LOOK_ENDED;
	if (row->flow->yielding == YIELDING_LOSS)
		return LOOK_LOSS;
	return row->flow->yielding == YIELDING_NOT ? LOOK_PLAIN : LOOK_YIELDS;
}

/* A name that is longer than what is beside the sums, and than a quarter of the screen, is cut. */
static const char *group_line(const struct view *view, const struct view_row *row)
{
	unsigned int level = row->id.group.depth - 1;
	const char *name = view_group_name(view, row, level) ?: "unknown",
		   *sum = sum_words(&row->head->sum);
	int indent = INDENT * level, room = COLS - indent - (int)strlen("- : ") - (int)strlen(sum);

	return text("%*s%c %s: %s", indent, "", folds_has(&view->folds, &row->id.group) ? '+' : '-',
		    shortened(name, room > COLS / 4 ? room : COLS / 4), sum);
}

static const char *row_line(const struct screen *screen, const struct view_row *row)
{
	const struct view *view = &screen->view;

	if (!row->flow)
		return group_line(view, row);
	if (row->flow->ended_ns)
		return ended_line(view, row->flow, screen->model.now_ns);
	return columns_line(view, row->flow, screen->model.now_ns, false);
}

static void draw_rows(struct screen *screen)
{
	size_t n = screen->view.n_rows, room = screen_room();

	if (screen->cursor >= n)
		screen->cursor = n ? n - 1 : 0;
	if (screen->cursor < screen->first)
		screen->first = screen->cursor;
	if (screen->cursor >= screen->first + room)
		screen->first = screen->cursor - room + 1;
	if (screen->first + room > n)
		screen->first = n > room ? n - room : 0;
	for (size_t i = screen->first; i < n && i < screen->first + room; i++) {
		const struct view_row *row = &screen->view.rows[i];

		terminal_line(HEAD + (i - screen->first),
			      i == screen->cursor ? LOOK_CURSOR : look_of(row),
			      row_line(screen, row));
	}
	if (!n)
		terminal_line(HEAD, LOOK_PLAIN,
			      *screen->view.filter ? "  no flow passes the filter" : "  no flows");
}

void screen_detail(struct screen *screen, const struct flow_id *id)
{
	screen->model.holds = true;
	screen->model.held = *id;
}

void screen_list(struct screen *screen)
{
	screen->model.holds = false;
}

void screen_choose(struct screen *screen, size_t row)
{
	screen->cursor = row;
	screen->chooses = row < screen->view.n_rows;
	if (screen->chooses)
		screen->chosen = screen->view.rows[row].id;
}

/* The cursor stays on what was chosen; where that is not listed, on its group. */
static void follow(struct screen *screen)
{
	const struct view *view = &screen->view;

	if (!screen->chooses)
		return;
	view_find(view, &screen->chosen, &screen->cursor);
	if (screen->cursor < view->n_rows &&
	    flow_id_is(&view->rows[screen->cursor].id.flow, &screen->chosen.flow))
		screen->chosen = view->rows[screen->cursor].id; /* its group may be known by now */
}

static void draw_list(struct screen *screen)
{
	terminal_line(0, LOOK_PLAIN, text("ccbpf top: %s", sum_words(&screen->view.sum)));
	terminal_line(1, LOOK_PLAIN, state_line(screen));
	terminal_line(2, LOOK_TITLE, columns_line(&screen->view, NULL, 0, false));
	draw_rows(screen);
}

void screen_draw(struct screen *screen)
{
	const struct text_block *mark = text_mark();
	const struct watched *detailed = NULL;

	erase();
	view_make(&screen->view, &screen->model);
	follow(screen);
	if (screen->model.holds)
		detailed = model_find(&screen->model, &screen->model.held);
	if (!detailed)
		screen_list(screen); /* it was forgotten before it could be held */
	if (screen->helps)
		for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++)
			terminal_line(i, i ? LOOK_PLAIN : LOOK_TITLE, help[i]);
	else if (detailed)
		detail_draw(screen, detailed);
	else
		draw_list(screen);
	refresh();
	text_release(mark);
}
