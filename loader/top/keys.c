// SPDX-License-Identifier: GPL-2.0-only
/* What the keys do: see screen.h. */
#include <ctype.h>
#include <curses.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "top/screen.h"

#define KEY_ESCAPE 27
#define KEY_DELETE 127

static bool is_enter(int key)
{
	return key == '\r' || key == '\n' || key == KEY_ENTER;
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
		if (length)
			filter[length - 1] = '\0';
	} else if (key < 128 && isprint(key) && length < VIEW_FILTER_MOST - 1) {
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
	screen->cursor = at < last ? at : last;
	return true;
}

/* The line of the group that the cursor is in, or NULL. The cursor goes there. */
static const struct view_row *to_group(struct screen *screen)
{
	const struct view *view = &screen->view;
	size_t at = screen->cursor;

	if (at >= view->n_rows)
		return NULL;
	while (at && view->rows[at].flow)
		at--;
	screen->cursor = at;
	return &view->rows[at];
}

static void fold_here(struct screen *screen, bool folded)
{
	const struct view_row *row = to_group(screen);

	if (row)
		folds_set(&screen->view.folds, row->group, folded);
}

/* The detail of a flow; a group is folded or unfolded. */
static void enter(struct screen *screen)
{
	const struct view *view = &screen->view;
	const struct view_row *row;

	if (screen->cursor >= view->n_rows)
		return;
	row = &view->rows[screen->cursor];
	if (row->flow)
		screen_detail(screen, &row->id);
	else
		fold_here(screen, !folds_has(&view->folds, row->group));
}

/* The detail of the next flow of the list, or of the one before. */
static void step(struct screen *screen, int by)
{
	const struct view *view = &screen->view;

	for (size_t at = screen->cursor + by; at < view->n_rows; at += by)
		if (view->rows[at].flow) {
			screen_detail(screen, &view->rows[at].id);
			screen->cursor = at;
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

	if (move_cursor(screen, key))
		return;
	if (key == '/')
		screen->edits = true;
	else if (key == 's')
		view_sort_by(view, (view->sort + 1) % VIEW_SORT_KINDS, view->reversed);
	else if (key == 'r')
		view_sort_by(view, view->sort, !view->reversed);
	else if (key == 'f')
		view->frozen = !view->frozen;
	else if (key == 'g')
		view_group_by(view, (view->by + 1) % GROUPING_KINDS);
	else if (key == 'a')
		folds_toggle_all(&view->folds);
	else if (key == '-' || key == '+')
		fold_here(screen, key == '-');
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
