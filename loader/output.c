// SPDX-License-Identifier: GPL-2.0-only
/* Output: see output.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "errors.h"
#include "output.h"

#define WIDTH 99 /* columns for a person, where no terminal says how many it has */
#define NARROW 20 /* what says less than this is none */

struct output_options output;

void *must_alloc(size_t n, size_t size)
{
	void *memory = calloc(n ?: 1, size ?: 1);

	if (!memory)
		exit(FAIL(EXIT_FAILED, .what = "go on",
			  .why = "out of memory"));
	return memory;
}

void *must_grow(void *old, size_t bytes)
{
	void *memory = realloc(old, bytes);

	if (!memory)
		exit(FAIL(EXIT_FAILED, .what = "go on",
			  .why = "out of memory"));
	return memory;
}

const char *output_style(FILE *to, enum style style)
{
	static const char *const codes[] = { "\033[0m", "\033[1m", "\033[32m",
					     "\033[31m", "\033[1;31m" };
	const char *no_color = getenv("NO_COLOR");

	if ((no_color && *no_color) || !isatty(fileno(to)))
		return "";
	return codes[style];
}

/* Bytes of the UTF-8 character that `s` begins with, or 0 where it is none, or one that
 * a terminal would obey. */
static size_t character(const unsigned char *s)
{
	size_t length = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (length == 1)
		return s[0] == '\n' || s[0] == '\t' ||
		       (s[0] >= ' ' && s[0] != 0x7f);
	if (s[0] < 0xc2 || s[0] > 0xf4 || (s[0] == 0xc2 && s[1] < 0xa0))
		return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

char *make_printable(char *string)
{
	for (unsigned char *s = (unsigned char *)string; *s;) {
		size_t length = character(s);

		if (!length)
			*s = '?';
		s += length ?: 1;
	}
	return string;
}

char *must_copy(const char *string)
{
	size_t size = strlen(string) + 1;

	return memcpy(must_alloc(1, size), string, size);
}

struct json_object *json_text(const char *string)
{
	char *copy = string ? make_printable(must_copy(string)) : NULL;
	struct json_object *made = copy ? json_object_new_string(copy) : NULL;

	free(copy);
	return made;
}

void add_text(struct json_object *doc, const char *key, const char *value)
{
	json_object_object_add(doc, key, json_text(value));
}

void add_number(struct json_object *doc, const char *key, uint64_t value)
{
	json_object_object_add(doc, key, json_object_new_uint64(value));
}

void add_bool(struct json_object *doc, const char *key, bool value)
{
	json_object_object_add(doc, key, json_object_new_boolean(value));
}

/* The text of a document, which lives as long as the document. */
static const char *serialized(struct json_object *doc)
{
	int flags = output.pretty
			    ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED
			    : JSON_C_TO_STRING_PLAIN;

	return json_object_to_json_string_ext(
		doc, flags | JSON_C_TO_STRING_NOSLASHESCAPE);
}

void output_json_to(FILE *to, struct json_object *doc)
{
	fprintf(to, "%s\n", serialized(doc));
	json_object_put(doc);
}

struct json_list {
	struct json_object *envelope;
	const char *tail; /* the envelope's text behind its items */
	bool any;
};

struct json_list *output_json_open(struct json_object *envelope)
{
	struct json_list *list = must_alloc(1, sizeof(*list));
	const char *head = serialized(envelope);

	list->envelope = envelope;
	list->tail = strrchr(head, ']');
	fwrite(head, 1, list->tail - head, stdout);
	return list;
}

void output_json_item(struct json_list *list, struct json_object *item)
{
	if (list->any)
		putchar(',');
	list->any = true;
	fputs(serialized(item), stdout);
	json_object_put(item);
}

void output_json_close(struct json_list *list)
{
	fprintf(stdout, "%s\n", list->tail);
	json_object_put(list->envelope);
	free(list);
}

void output_json(struct json_object *doc)
{
	output_json_to(stdout, doc);
}

int output_answer(int err, struct json_object *doc)
{
	if (!err && output.json)
		output_json(doc);
	else
		json_object_put(doc);
	return err;
}

void output_discard(void)
{
	__fpurge(stdout);
	clearerr(stdout);
}

int output_finish(void)
{
	static int said;
	int failed = ferror(stdout);

	errno = failed ? EIO : 0;
	if (failed)
		putchar('\n'); /* its reason is gone: the next one has it */
	if (fflush(stdout) && errno == EINTR) { /* see ticker.h */
		output_discard();
		return EXIT_OK;
	}
	if ((!ferror(stdout) && !failed) || said++)
		return said ? EXIT_FAILED : EXIT_OK;
	return FAIL(EXIT_FAILED, .what = "write", .on = "the output",
		    .why = strerror(errno),
		    .remedy = "give it a place that can be written");
}

struct cell {
	char *string;
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
	if (table->used == table->size) {
		table->size = table->size ? 2 * table->size : 64;
		table->cells = must_grow(table->cells,
					 table->size * sizeof(*table->cells));
	}
	table->cells[table->used].string = make_printable(must_copy(string));
	table->cells[table->used++].style = style;
}

void table_cell(struct table *table, const char *format, ...)
{
	char buffer[512];
	va_list args;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	table_styled(table, STYLE_NONE, buffer);
}

void table_note(struct table *table, const char *string)
{
	table->notes = must_grow(table->notes, (table->n_notes + 1) *
						       sizeof(*table->notes));
	table->notes[table->n_notes].string =
		make_printable(must_copy(string));
	table->notes[table->n_notes++].below = table->used;
}

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

static size_t limit(void)
{
	struct winsize size = { 0 };

	if (isatty(STDOUT_FILENO) &&
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
	    size.ws_col > NARROW)
		return size.ws_col - 1;
	return WIDTH;
}

/*
 * Widths of the columns: as wide as their widest cell. Until the table fits,
 * the gaps get narrower and then the widest elastic columns.
 */
static void fit(struct table *table, size_t *widths)
{
	size_t total = 0, most = limit();

	for (size_t i = 0; i < table->used; i++) {
		size_t width = display_width(table->cells[i].string);

		if (width > widths[i % table->n])
			widths[i % table->n] = width;
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

/*
 * Print at most `width` columns of a string: what is left out of its middle
 * becomes an ellipsis.
 */
static void print_short(const char *string, size_t width)
{
	size_t all = display_width(string), head = (width - 1) / 2, at = 0;
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

static void print_cell(const struct table *table, size_t i,
		       const size_t *widths)
{
	const struct cell *cell = &table->cells[i];
	unsigned int column = i % table->n;
	size_t width = display_width(cell->string), all = widths[column];
	int padding = width < all ? (int)(all - width) : 0;
	bool last = column == table->n - 1,
	     right = table->columns[column].right;

	if (right)
		printf("%*s", padding, "");
	fputs(cell->style ? output_style(stdout, cell->style) : "", stdout);
	print_short(cell->string, all);
	fputs(cell->style ? output_style(stdout, STYLE_NONE) : "", stdout);
	if (last)
		putchar('\n');
	else
		printf("%*s", (right ? 0 : padding) + table->gap, "");
}

void table_print(struct table *table)
{
	size_t *widths = must_alloc(table->n, sizeof(*widths)), note = 0;

	fit(table, widths);
	for (size_t i = 0; i < table->used; i++) {
		print_cell(table, i, widths);
		free(table->cells[i].string);
		for (; note < table->n_notes &&
		       table->notes[note].below == i + 1;
		     note++) {
			fputs("  ", stdout);
			print_short(table->notes[note].string, limit() - 2);
			putchar('\n');
			free(table->notes[note].string);
		}
	}
	free(widths);
	free(table->notes);
	free(table->cells);
	free(table);
}

const char *human_ms(uint64_t us)
{
	return us < 99950 ? text("%.1f", us / 1e3) : text("%.0f", us / 1e3);
}

const char *human_bps(uint64_t bps)
{
	static const char *const prefixes[] = {
		"", "k", "M", "G", "T", "P", "E"
	};
	unsigned int i = 0;
	double value = bps;

	for (; value >= 999.5; i++)
		value /= 1000;
	return text("%.*f%s",
		    i == 0 || value >= 99.95 ? 0
		    : value < 9.995	     ? 2
					     : 1,
		    value, prefixes[i]);
}

const char *human_age(uint64_t ns)
{
	unsigned long long s = ns / 1000000000ULL;

	if (s < 120)
		return text("%llus", s);
	if (s < 6000)
		return text("%llumin", s / 60);
	if (s < 36000)
		return text("%llu.%lluh", s / 3600, s % 3600 / 360);
	if (s < 172800)
		return text("%lluh", s / 3600);
	return text("%llud", s / 86400);
}
