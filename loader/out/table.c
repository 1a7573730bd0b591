// SPDX-License-Identifier: GPL-2.0-only
/* A table for a person: see table.h. */
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "out/printable.h"
#include "out/table.h"
#include "util/memory.h"
#include "util/number.h"
#include "util/text.h"

#define WIDTH 99 /* columns of a terminal that does not say how many it has */
#define NARROW 20 /* what says less than this is none */

struct cell {
	char *string;
	size_t width; /* columns that it takes */
	enum style style;
};

struct note {
	char *string;
	size_t below; /* so many cells */
};

struct table {
	const struct column *columns;
	unsigned int n;
	struct cell *cells;
	size_t used, size;
	struct note *notes;
	size_t n_notes;
	int gap; /* columns between two columns */
};

/*
 * Columns that UTF-8 text takes: our texts have no wide and no combining
 * characters.
 */
static size_t display_width(const char *string)
{
	size_t width = 0;

	for (; *string; string++)
		width += (*string & 0xc0) != 0x80;
	return width;
}

struct table *table_new(const struct column *columns, unsigned int n)
{
	struct table *table = must_alloc(1, sizeof(*table));

	table->columns = columns;
	table->n = n;
	for (unsigned int i = 0; i < n; i++)
		table_styled(table, STYLE_HEAD, columns[i].title);
	return table;
}

void table_styled(struct table *table, enum style style, const char *string)
{
	char *copy = make_printable(must_copy(string));

	if (table->used == table->size) {
		table->size = table->size ? 2 * table->size : 64;
		table->cells = must_grow(table->cells, table->size * sizeof(*table->cells));
	}
	table->cells[table->used++] = (struct cell){ copy, display_width(copy), style };
}

void table_cell(struct table *table, const char *format, ...)
{
	char buffer[TEXT_MOST];
	va_list args;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	table_styled(table, STYLE_NONE, buffer);
}

void table_note(struct table *table, const char *string)
{
	table->notes = must_grow(table->notes, (table->n_notes + 1) * sizeof(*table->notes));
	table->notes[table->n_notes].string = make_printable(must_copy(string));
	table->notes[table->n_notes++].below = table->used;
}

/* The most columns of a line: of the terminal, of COLUMNS, or as many as it takes. */
static size_t limit(void)
{
	bool terminal = isatty(STDOUT_FILENO);
	unsigned long columns;
	struct winsize size = { 0 };
	char *end;

	if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > NARROW)
		return size.ws_col - 1;
	if (number_parse(getenv("COLUMNS") ?: "", NARROW, INT_MAX, &columns, &end) && !*end)
		return columns;
	return terminal ? WIDTH : SIZE_MAX;
}

/*
 * Widths of the columns: as wide as their widest cell. Until the table fits,
 * the gaps get narrower and then the widest elastic columns.
 */
static void fit(struct table *table, size_t *widths)
{
	size_t total = 0, most = limit();

	for (size_t i = 0; i < table->used; i++) {
		if (table->cells[i].width > widths[i % table->n])
			widths[i % table->n] = table->cells[i].width;
	}
	for (unsigned int i = 0; i < table->n; i++)
		total += widths[i];
	table->gap = total + 2 * (table->n - 1) > most ? 1 : 2;
	total += table->gap * (table->n - 1);
	for (; total > most; total--) {
		unsigned int widest = table->n;

		for (unsigned int i = 0; i < table->n; i++)
			if (table->columns[i].elastic &&
			    (widest == table->n || widths[i] > widths[widest]))
				widest = i;
		if (widest == table->n || widths[widest] < 8)
			return;
		widths[widest]--;
	}
}

static void print_part(const char *from, const char *to)
{
	fwrite(from, 1, to - from, stdout);
}

static void print_blanks(size_t n)
{
	for (; n; n--)
		putchar_unlocked(' ');
}

/*
 * Print at most `width` columns of a string that takes `all`: what is left out of its
 * middle becomes an ellipsis.
 */
static void print_short(const char *string, size_t all, size_t width)
{
	size_t head = (width - 1) / 2, at = 0;
	const char *end_of_head = NULL, *start_of_tail = NULL;

	if (all <= width) {
		fputs(string, stdout);
		return;
	}
	for (const char *c = string; *c; c++) {
		if ((*c & 0xc0) == 0x80)
			continue;
		if (at == head)
			end_of_head = c;
		if (at == all - (width - 1 - head))
			start_of_tail = c;
		at++;
	}
	print_part(string, end_of_head);
	fputs("…", stdout);
	fputs(start_of_tail ?: "", stdout);
}

static void print_cell(const struct table *table, size_t i, const size_t *widths)
{
	const struct cell *cell = &table->cells[i];
	unsigned int column = i % table->n;
	size_t all = widths[column], padding = cell->width < all ? all - cell->width : 0;
	bool last = column == table->n - 1, right = table->columns[column].right;

	if (right)
		print_blanks(padding);
	fputs(cell->style ? output_style(stdout, cell->style) : "", stdout);
	print_short(cell->string, cell->width, all);
	fputs(cell->style ? output_style(stdout, STYLE_NONE) : "", stdout);
	if (last)
		putchar('\n');
	else
		print_blanks((right ? 0 : padding) + table->gap);
}

/* A note is wrapped at its blanks: no part of it is left out. */
static void print_note(char *note, size_t most)
{
	static const char indent[] = "  ", deeper[] = "    ";
	size_t at = strlen(indent);
	char *rest = NULL, *word = strtok_r(note, " ", &rest);

	fputs(indent, stdout);
	for (bool first = true; word; word = strtok_r(NULL, " ", &rest), first = false) {
		size_t width = display_width(word);

		if (!first && at + 1 + width > most) {
			printf("\n%s", deeper);
			at = strlen(deeper);
		} else if (!first) {
			putchar(' ');
			at++;
		}
		fputs(word, stdout);
		at += width;
	}
	putchar('\n');
}

void table_print(struct table *table)
{
	size_t *widths = must_alloc(table->n, sizeof(*widths)), note = 0;

	fit(table, widths);
	for (size_t i = 0; i < table->used; i++) {
		print_cell(table, i, widths);
		free(table->cells[i].string);
		for (; note < table->n_notes && table->notes[note].below == i + 1; note++) {
			print_note(table->notes[note].string, limit());
			free(table->notes[note].string);
		}
	}
	free(widths);
	free(table->notes);
	free(table->cells);
	free(table);
}
