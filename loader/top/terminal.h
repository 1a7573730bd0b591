/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The terminal as a full screen (ncursesw), and as it was before: also at exit(), and after a
 * signal that ends the process.
 */
#ifndef CCBPF_TOP_TERMINAL_H
#define CCBPF_TOP_TERMINAL_H

#include <stdbool.h>

/* How a line looks. */
enum look {
	LOOK_PLAIN,
	LOOK_TITLE, /* of the columns */
	LOOK_GROUP, /* of a group */
	LOOK_YIELDS, /* a flow that gives way */
	LOOK_LOSS, /* to a loss */
	LOOK_ENDED, /* a flow that has ended */
	LOOK_CURSOR, /* the chosen line */
};

/* Take the terminal. Returns EXIT_OK, or the exit code after saying why not. */
int terminal_open(const char *what);

/* Give it back. Does nothing where it was not taken. */
void terminal_close(void);

/* Does it show UTF-8? */
bool terminal_is_utf8(void);

/* Write a line of the screen; what does not fit is left out. */
void terminal_line(int line, enum look look, const char *string);

#endif
