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

static void edit(struct screen *screen, int key)
{
	char *filter = screen->view.filter;
	size_t length = strlen(filter);

	if (key == '\r' || key == '\n' || key == KEY_ENTER) {
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

static void fold_here(struct screen *screen)
{
	struct view *view = &screen->view;
	size_t at = screen->cursor;

	if (at >= view->n_rows)
		return;
	while (at && view->rows[at].flow)
		at--; /* to the line of its controller */
	screen->cursor = at;
	view_fold(view, view->rows[at].kind);
}

static void press(struct screen *screen, int key)
{
	struct view *view = &screen->view;

	if (key == KEY_RESIZE)
		return; /* it is drawn anew in any case */
	if (screen->helps)
		screen->helps = false;
	else if (screen->edits)
		edit(screen, key);
	else if (move_cursor(screen, key))
		return;
	else if (key == 'q')
		screen->ended = true;
	else if (key == '?' || key == 'h')
		screen->helps = true;
	else if (key == '/')
		screen->edits = true;
	else if (key == 's')
		view_sort_by(view, (view->sort + 1) % VIEW_SORT_KINDS, view->reversed);
	else if (key == 'r')
		view_sort_by(view, view->sort, !view->reversed);
	else if (key == 'f')
		view->frozen = !view->frozen;
	else if (key == 'p' || key == ' ')
		screen->paused = !screen->paused;
	else if (key == 'a')
		view_fold_all(view);
	else if (key == '\r' || key == '\n' || key == KEY_ENTER)
		fold_here(screen);
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
