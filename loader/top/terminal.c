// SPDX-License-Identifier: GPL-2.0-only
/*
 * The terminal: see terminal.h. A handler of a fatal signal may call nothing of ncurses. So the
 * sequences that end the full screen are kept as a string, with the terminal's modes, and the
 * handler writes them.
 */
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "out/errors.h"
#include "out/printable.h"
#include "top/terminal.h"
#include "util/memory.h"
#include "util/text.h"

/*
 * Every other signal ends the process by default. These do not, or are caught by the ticker (INT,
 * TERM, HUP); KILL and STOP cannot be caught.
 */
static const int not_fatal[] = { SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGTSTP,
				 SIGTTIN, SIGTTOU, SIGINT, SIGTERM,  SIGHUP };

static struct {
	SCREEN *screen;
	struct termios modes;
	char ending[128]; /* what ends the full screen */
	size_t ending_length;
	bool coloured, utf8;
	volatile sig_atomic_t taken;
} terminal;

static void on_fatal(int signal)
{
	ssize_t done;

	if (terminal.taken) {
		done = write(STDOUT_FILENO, terminal.ending, terminal.ending_length);
		(void)done;
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal.modes);
	}
	raise(signal); /* SA_RESETHAND: now for good, when this handler returns */
}

static bool is_fatal(int signal)
{
	for (size_t i = 0; i < sizeof(not_fatal) / sizeof(not_fatal[0]); i++)
		if (not_fatal[i] == signal)
			return false;
	return true;
}

/* Those that the caller has us ignore stay ignored. */
static void catch_fatal(void)
{
	static char stack[1 << 16]; /* also when the other one has overflowed */
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_fatal, .sa_flags = SA_RESETHAND | SA_ONSTACK };
	struct sigaction before;

	sigaltstack(&other, NULL);
	for (int signal = 1; signal <= SIGRTMAX; signal++)
		if (is_fatal(signal) && !sigaction(signal, NULL, &before) &&
		    before.sa_handler != SIG_IGN)
			sigaction(signal, &action, NULL);
}

static void keep_ending(void)
{
	const char *const names[] = { "sgr0", "rmkx", "cnorm", "rmcup" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *sequence = tigetstr((char *)names[i]);

		if (sequence && sequence != (char *)-1)
			append(terminal.ending, sizeof(terminal.ending), "", "%s", sequence);
	}
	append(terminal.ending, sizeof(terminal.ending), "", "\n");
	terminal.ending_length = strlen(terminal.ending);
}

static bool wants_colour(void)
{
	const char *no_color = getenv("NO_COLOR");

	return !(no_color && *no_color) && has_colors();
}

static void set_colours(void)
{
	terminal.coloured = wants_colour();
	if (!terminal.coloured)
		return;
	start_color();
	use_default_colors();
	init_pair(LOOK_YIELDS, COLOR_GREEN, -1);
	init_pair(LOOK_LOSS, COLOR_RED, -1);
	init_pair(LOOK_GROUP, COLOR_CYAN, -1);
}

/* Is anything known of TERM? newterm() keeps memory where nothing is. */
static bool is_known(void)
{
	int found;

	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return false;
	del_curterm(cur_term);
	return true;
}

int terminal_open(const char *what)
{
	setlocale(LC_CTYPE, "");
	terminal.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
	    !tcgetattr(STDIN_FILENO, &terminal.modes) && is_known())
		terminal.screen = newterm(NULL, stdout, stdin);
	if (!terminal.screen)
		return FAIL(EXIT_FAILED, .what = what, .on = "the terminal",
			    .why = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)
					   ? text("TERM is `%s`, of which nothing is known",
						  getenv("TERM") ?: "")
					   : "input and output must be a terminal",
			    .remedy = "`ccbpf top -b` prints lines instead");
	set_term(terminal.screen);
	keep_ending();
	terminal.taken = 1;
	atexit(terminal_close);
	catch_fatal();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	set_colours();
	return EXIT_OK;
}

void terminal_close(void)
{
	if (!terminal.taken)
		return;
	endwin();
	terminal.taken = 0;
	delscreen(terminal.screen);
	terminal.screen = NULL;
}

bool terminal_is_utf8(void)
{
	return terminal.utf8;
}

static attr_t attributes(enum look look)
{
	attr_t attr = 0;

	if (look == LOOK_TITLE)
		return A_REVERSE;
	if (look == LOOK_CURSOR)
		return A_REVERSE | A_BOLD;
	if (look == LOOK_ENDED)
		return A_DIM;
	if (look != LOOK_PLAIN)
		attr = look == LOOK_GROUP || look == LOOK_LOSS ? A_BOLD : 0;
	if (terminal.coloured && look != LOOK_PLAIN)
		attr |= COLOR_PAIR(look);
	return attr;
}

/* End a string after so many characters, each of which takes a column. */
static void cut(char *string, int width)
{
	for (; *string; string++) {
		if ((*string & 0xc0) != 0x80 && width-- == 0)
			break;
	}
	*string = '\0';
}

void terminal_line(int line, enum look look, const char *string)
{
	char *copy;

	if (line >= LINES)
		return;
	copy = make_printable(must_copy(string));
	cut(copy, COLS);
	for (char *c = copy; !terminal.utf8 && *c; c++)
		if (*c & 0x80)
			*c = '?';
	move(line, 0);
	clrtoeol();
	attrset(attributes(look));
	addstr(copy);
	if (look == LOOK_TITLE || look == LOOK_CURSOR)
		for (int at = getcurx(stdscr); getcury(stdscr) == line && at < COLS; at++)
			addch(' ');
	attrset(0);
	free(copy);
}
