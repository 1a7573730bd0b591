// SPDX-License-Identifier: GPL-2.0-only
/*
 * The detail of a flow: see detail.h.
 *
 *   line 0     its controller and addresses
 *   line 1     how to leave it
 *   line 3…    its columns, then a sentence on what has no column
 *              curves of rate, window and queueing delay
 *              the lines of `ccbpf flows -v`, which are as long as they are
 */
#include <curses.h>
#include <string.h>

#include "cc/flowtext.h"
#include "out/human.h"
#include "top/columns.h"
#include "top/detail.h"
#include "top/terminal.h"
#include "util/text.h"

#define MARGIN 2
#define CELL 26 /* columns of a title with what it says */
#define TITLE 10 /* of them for the title */
#define LINE_MOST 512 /* bytes */
#define LABEL 8 /* columns of the name of a curve */
#define BESIDE 30 /* at least, for the figures beside a curve */

/* A text from `line` on, broken at spaces where it is too long. Returns the line behind it. */
static int draw_text(int line, enum look look, const char *string)
{
	int room = COLS > MARGIN + CELL ? COLS - MARGIN : CELL;

	while (*string) {
		int length = strlen(string), end = length;

		if (length > room) {
			for (end = room; end > 0 && string[end] != ' ';)
				end--;
			for (end = end ?: room; end > 1 && (string[end] & 0xc0) == 0x80;)
				end--; /* no character of UTF-8 in two */
		}
		terminal_line(line++, look, text("%*s%.*s", MARGIN, "", end, string));
		string += end;
		string += *string == ' ';
	}
	return line;
}

/* The columns, as many beside each other as there is room for. */
static int draw_columns(int line, const struct watched *flow, uint64_t now_ns)
{
	char cells[LINE_MOST] = "";
	int most = COLS / CELL > 1 ? COLS / CELL : 1, n = 0;

	for (unsigned int i = 0; i < n_top_columns; i++) {
		const struct top_column *column = &top_columns[i];

		if (column->who || column->width == TOP_BAR)
			continue; /* in the title; drawn as a curve */
		if (n == most) {
			terminal_line(line++, LOOK_PLAIN, cells);
			*cells = n = 0;
		}
		append(cells, sizeof(cells), "", "%*s%-*s%-*s", n ? 0 : MARGIN, "", TITLE,
		       column->title, CELL - TITLE, column->cell(flow, now_ns));
		n++;
	}
	terminal_line(line++, LOOK_PLAIN, cells);
	return line;
}

static const char *rate_figures(double last, double largest)
{
	return text("%s, at most %s bit/s", human_bps(last), human_bps(largest));
}

static const char *window_figures(double last, double largest)
{
	return text("%.0f, at most %.0f packets", last, largest);
}

static const char *delay_figures(double last, double largest)
{
	return text("%s, at most %s ms", human_ms(last), human_ms(largest));
}

static int draw_curves(int line, const struct watched *flow, uint64_t period_ns)
{
	const struct history *history = flow->history;
	static const struct {
		const char *name;
		const char *(*figures)(double last, double largest);
	} curves[] = {
		[CURVE_RATE] = { "rate", rate_figures },
		[CURVE_WINDOW] = { "window", window_figures },
		[CURVE_DELAY] = { "delay", delay_figures },
	};
	int room = COLS - MARGIN - LABEL - BESIDE;
	unsigned int length = history_length(history, room > 1 ? room : 1);

	if (!length) {
		terminal_line(line++, LOOK_PLAIN,
			      flow->ended_ns ? "  no curves: it ended within a period"
					     : "  no curves yet: they begin after a period");
		return line;
	}
	terminal_line(line++, LOOK_PLAIN,
		      text("  the last %u period%s of %g s", length, length == 1 ? "" : "s",
			   period_ns / 1e9));
	for (unsigned int i = 0; i < CURVES; i++)
		terminal_line(line++, LOOK_PLAIN,
			      text("%*s%-*s%s  %s", MARGIN, "", LABEL, curves[i].name,
				   history_line(history, i, length, terminal_is_utf8()),
				   curves[i].figures(history_last(history, i),
						     history_largest(history, i, length))));
	return line;
}

static const char *title(const struct watched *flow, uint64_t now_ns)
{
	const struct ccbpf_flow *f = &flow->flow.record;

	return text("%.*s: %s to %s%s", CCBPF_NAME_LEN, f->controller,
		    endpoint(f->family, f->local_addr, f->local_port),
		    endpoint(f->family, f->remote_addr, f->remote_port),
		    flow->ended_ns ? text(", %s", watched_ended(flow, now_ns)) : "");
}

/* What has no column. */
static const char *other_words(const struct ccbpf_flow *f)
{
	return text("%s acknowledged; last round trip %s ms, delivery rate %s bit/s",
		    human_bytes(f->bytes_acked), human_ms(f->rtt_us), human_bps(f->rate_bps));
}

void detail_draw(const struct screen *screen, const struct watched *flow)
{
	const struct ccbpf_flow *f = &flow->flow.record;
	const struct flow_id id = watched_id(flow);
	enum look look = flow->ended_ns ? LOOK_ENDED : LOOK_PLAIN;
	int line = 3;

	terminal_line(0, LOOK_TITLE, title(flow, screen->model.now_ns));
	terminal_line(1, LOOK_PLAIN,
		      text("Enter or Esc: the list   j, k: another flow%s   ? help",
			   screen->paused ? "   PAUSED" : ""));
	line = draw_columns(line, flow, flow->ended_ns ?: screen->model.now_ns);
	line = draw_text(line, look, other_words(f));
	line = draw_curves(line + 1, flow, screen->period_ns);
	line = draw_text(line + 1, look, flow_own_words(f));
	line = draw_text(line, look, flow_met_words(f));
	draw_text(line, look,
		  owners_said(&screen->view.owners, &id)
			  ?: "rule or run, cgroup and process: unknown");
}
