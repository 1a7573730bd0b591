// SPDX-License-Identifier: GPL-2.0-only
/* What the keys do: see screen.h. */
#include <ctype.h>
#include <curses.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "top/screen.h"
#include "top/terminal.h"

#define KEY_ESCAPE 27
#define KEY_DELETE 127

static bool is_enter(int key)
{
	return key == '\r' || key == '\n' || key == KEY_ENTER;
}

/* A byte of a typed character, for which there is room: curses delivers UTF-8 byte by byte. The first byte says
 * how many the character has. */
static bool is_typed(int key, size_t length)
{
	size_t bytes = key < 0xc0 ? 1 : key < 0xe0 ? 2 : key < 0xf0 ? 3 : 4;

	if (length + bytes >= VIEW_FILTER_MOST)
		return false;
	return key < 128 ? isprint(key) : key < 256 && terminal_is_utf8();
}

static void drop_character(char *string)
{
	size_t length = strlen(string);

	while (length && (string[length - 1] & 0xc0) == 0x80)
		length--;
	string[length ? length - 1 : 0] = '\0';
}

static void edit(struct screen *screen, int key)
{
	char *filter = screen->view.filter;
	size_t length = strlen(filter);

	if (is_enter(key)) {
		screen->edits = false;
	} else if (key == KEY_ESCAPE) {
		screen->edits = false;
		*filter = '\0';
	} else if (key == KEY_BACKSPACE || key == KEY_DELETE || key == '\b') {
		drop_character(filter);
	} else if (is_typed(key, length)) {
		filter[length] = key;
		filter[length + 1] = '\0';
	}
}

/* Does the key move the cursor? */
static bool move_cursor(struct screen *screen, int key)
{
	size_t page = screen_room(), last = screen->view.n_rows ? screen->view.n_rows - 1 : 0;
	size_t at = screen->cursor;

	if (key == KEY_UP || key == 'k')
		at -= at > 0;
	else if (key == KEY_DOWN || key == 'j')
		at++;
	else if (key == KEY_PPAGE)
		at -= at < page ? at : page;
	else if (key == KEY_NPAGE)
		at += page;
	else if (key == KEY_HOME)
		at = 0;
	else if (key == KEY_END)
		at = last;
	else
		return false;
	screen_choose(screen, at < last ? at : last);
	return true;
}

/* The cursor goes to the line of a group. */
static void to_group(struct screen *screen, const struct group *group)
{
	const struct view_id id = { .group = *group };
	size_t at = screen->cursor;

	view_find(&screen->view, &id, &at);
	screen_choose(screen, at);
}

/* Fold the group of the line, or if it is folded the one that it is in; unfold that of its own line. */
static void fold_here(struct screen *screen, bool folded)
{
	struct folds *folds = &screen->view.folds;
	const struct view_row *row;
	struct group group;

	if (screen->cursor >= screen->view.n_rows)
		return;
	row = &screen->view.rows[screen->cursor];
	if (row->flow && !folded)
		return;
	group = row->id.group;
	if (folded && folds_has(folds, &group) && group.depth > 1)
		group.depth--;
	folds_set(folds, &group, folded);
	to_group(screen, &group);
}

/* Other groups: the cursor stays on a flow, but not on a group. */
static void group_next(struct screen *screen)
{
	struct view *view = &screen->view;

	if (screen->cursor < view->n_rows && !view->rows[screen->cursor].flow)
		screen->chooses = false;
	view_group_by(view, (view->order.by + 1) % GROUPING_KINDS);
}

/* The detail of a flow; a group is folded or unfolded. */
static void enter(struct screen *screen)
{
	const struct view *view = &screen->view;
	const struct view_row *row;

	if (screen->cursor >= view->n_rows)
		return;
	row = &view->rows[screen->cursor];
	screen_choose(screen, screen->cursor);
	if (row->flow)
		screen_detail(screen, &row->id.flow);
	else
		fold_here(screen, !folds_has(&view->folds, &row->id.group));
}

/* The detail of the next flow of the list, or of the one before. */
static void step(struct screen *screen, int by)
{
	const struct view *view = &screen->view;

	for (size_t at = screen->cursor + by; at < view->n_rows; at += by)
		if (view->rows[at].flow) {
			screen_detail(screen, &view->rows[at].id.flow);
			screen_choose(screen, at);
			return;
		}
}

/* What a key does in the detail and in the list. */
static bool press_common(struct screen *screen, int key)
{
	if (key == 'q')
		screen->ended = true;
	else if (key == '?' || key == 'h')
		screen->helps = true;
	else if (key == 'p' || key == ' ')
		screen->paused = !screen->paused;
	else
		return false;
	return true;
}

static void press_detail(struct screen *screen, int key)
{
	if (is_enter(key) || key == KEY_ESCAPE)
		screen_list(screen);
	else if (key == KEY_DOWN || key == 'j')
		step(screen, 1);
	else if (key == KEY_UP || key == 'k')
		step(screen, -1);
}

static void press_list(struct screen *screen, int key)
{
	struct view *view = &screen->view;
	struct order *order = &view->order;

	if (move_cursor(screen, key))
		return;
	if (key == '/')
		screen->edits = true;
	else if (key == 's')
		view_sort_by(view, (order->sort + 1) % ORDER_KINDS, order->reversed);
	else if (key == 'r')
		view_sort_by(view, order->sort, !order->reversed);
	else if (key == 'f')
		order->frozen = !order->frozen;
	else if (key == 'g')
		group_next(screen);
	else if (key == 'a')
		folds_next(&view->folds, grouping_levels(order->by));
	else if (key == '-' || key == KEY_LEFT || key == '+' || key == KEY_RIGHT)
		fold_here(screen, key == '-' || key == KEY_LEFT);
	else if (is_enter(key))
		enter(screen);
}

static void press(struct screen *screen, int key)
{
	if (key == KEY_RESIZE)
		return; /* it is drawn anew in any case */
	if (screen->helps)
		screen->helps = false;
	else if (screen->edits)
		edit(screen, key);
	else if (press_common(screen, key))
		return;
	else if (screen->model.holds)
		press_detail(screen, key);
	else
		press_list(screen, key);
}

void screen_keys(struct screen *screen, bool readable)
{
	int key = getch(), waiting = 0;

	/* Input without a key, and nothing is left: the terminal is gone. */
	if (key == ERR && readable && !ioctl(STDIN_FILENO, FIONREAD, &waiting) && !waiting)
		screen->ended = true;
	for (; key != ERR && !screen->ended; key = getch())
		press(screen, key);
}
