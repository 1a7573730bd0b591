// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is drawn: see screen.h.
 *
 *   line 0     all flows together
 *   line 1     how they are shown, or the filter while it is typed
 *   line 2     the titles of the columns
 *   line 3…    a line for each controller, and its flows below it
 */
#include <curses.h>
#include <string.h>

#include "out/human.h"
#include "top/columns.h"
#include "top/screen.h"
#include "top/terminal.h"
#include "util/text.h"

#define HEAD 3 /* lines above the rows */
#define MARGIN 2 /* of a flow's line */
#define LINE_MOST 512 /* bytes; what a wider screen has is left empty */

static const char *const help[] = {
	"ccbpf top: the live flows of our controllers, by controller",
	"",
	"  s  sort by the next column    r  reverse    f  freeze the order, or not",
	"  /  filter by name, address, port, phase or yield (empty: all)",
	"  p  pause, or go on            Enter  fold a controller    a  fold all",
	"  arrows, j, k, PgUp, PgDn, Home, End  move    q  quit",
	"",
	"  BIT/S     acknowledged payload, over the last period",
	"  CWND      congestion window, packets",
	"  SRTT ms   round-trip time, smoothed by the kernel",
	"  DELAY     queueing delay: smoothed/threshold, and as a bar. ! is above the",
	"            threshold; - where the controller has none",
	"  PHASE     what the controller does",
	"  YIELD     to what the flow yields now: delay, mark or loss",
	"  FOR       for how long it has yielded",
	"  PART      part of the time in which it yielded, since top has watched it",
	"  INDIC     early reductions; LOSSES, MARKS: reductions by these",
	"  RETRANS   retransmitted packets",
	"",
	"  Local addresses, SRTT, AGE and the counters need a wider screen.",
	"  Any key goes back.",
};

size_t screen_room(void)
{
	return LINES > HEAD + 1 ? LINES - HEAD : 1;
}

/* Behind what is in the line, a space between: as wide as the column. */
static void add_cell(char *line, const char *cell, int width, bool right)
{
	int length = strlen(cell), head = (width - 1) / 2;

	if (length > width)
		cell = text("%.*s~%s", head, cell, cell + length - (width - 1 - head));
	append(line, LINE_MOST, "", right ? "%*s " : "%-*s ", width, cell);
}

/* Columns of the screen that are left for each elastic column, beyond its least. */
static int spare(int screen_width)
{
	int used = MARGIN, elastic = 0;

	for (unsigned int i = 0; i < n_top_columns; i++) {
		const struct top_column *column = &top_columns[i];

		if (screen_width < column->from)
			continue;
		used += column->width + 1;
		elastic += column->elastic;
	}
	/* No space behind the last one; "[IPv6]:port" needs no more than 24 beyond 23. */
	used--;
	return used < screen_width && elastic
		       ? (screen_width - used) / elastic < 24 ? (screen_width - used) / elastic : 24
		       : 0;
}

/* The titles, or with `flow` its cells. */
static const char *columns_line(const struct watched *flow, uint64_t now_ns)
{
	char line[LINE_MOST] = "";
	int more = spare(COLS);

	append(line, sizeof(line), "", "%*s", MARGIN, "");
	for (unsigned int i = 0; i < n_top_columns; i++) {
		const struct top_column *column = &top_columns[i];

		if (COLS >= column->from)
			add_cell(line, flow ? column->cell(flow, now_ns) : column->title,
				 column->width + (column->elastic ? more : 0), column->right);
	}
	return text("%s", line);
}

static const char *sum_words(const struct sum *sum)
{
	char words[128] = "";
	size_t all = sum_yielding(sum);

	for (unsigned int i = YIELDING_NOT + 1; i < YIELDING_KINDS; i++)
		if (sum->yielding[i])
			append(words, sizeof(words), ", ", "%zu %s", sum->yielding[i],
			       yielding_word(i));
	return text("%zu flow%s, %s bit/s, %zu yield%s%s%s%s", sum->flows,
		    sum->flows == 1 ? "" : "s", human_bps(sum->goodput_bps), all,
		    all == 1 ? "s" : "", all ? " (" : "", words, all ? ")" : "");
}

static const char *state_line(const struct screen *screen)
{
	const struct view *view = &screen->view;

	if (screen->edits)
		return text("filter: %s_  (Enter: done, Esc: none)", view->filter);
	return text("sorted by %s%s%s%s%s%s   ? help", view_sort_word(view->sort),
		    view->reversed ? ", reversed" : "", view->frozen ? ", FROZEN" : "",
		    screen->paused ? ", PAUSED" : "", *view->filter ? ", filter: " : "",
		    view->filter);
}

static enum look look_of(const struct view_row *row)
{
	if (!row->flow)
		return LOOK_GROUP;
	if (row->flow->yielding == YIELDING_LOSS)
		return LOOK_LOSS;
	return row->flow->yielding == YIELDING_NOT ? LOOK_PLAIN : LOOK_YIELDS;
}

static const char *row_line(const struct screen *screen, const struct view_row *row)
{
	bool folded = screen->view.folded >> (row->kind % 64) & 1;

	if (row->flow)
		return columns_line(row->flow, screen->model.now_ns);
	return text("%c %.*s: %s", folded ? '+' : '-', CCBPF_NAME_LEN, row->controller,
		    sum_words(&row->sum));
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

void screen_draw(struct screen *screen)
{
	const struct text_block *mark = text_mark();

	erase();
	if (screen->helps) {
		for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++)
			terminal_line(i, i ? LOOK_PLAIN : LOOK_TITLE, help[i]);
	} else {
		view_make(&screen->view, &screen->model);
		terminal_line(0, LOOK_PLAIN, text("ccbpf top: %s", sum_words(&screen->view.sum)));
		terminal_line(1, LOOK_PLAIN, state_line(screen));
		terminal_line(2, LOOK_TITLE, columns_line(NULL, 0));
		draw_rows(screen);
	}
	refresh();
	text_release(mark);
}
