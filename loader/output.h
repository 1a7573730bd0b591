/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Output: a table for a person (99 columns at most, or the terminal's width), JSON by
 * json-c for a program. Colours only on a terminal, and not if NO_COLOR is set.
 */
#ifndef CCBPF_OUTPUT_H
#define CCBPF_OUTPUT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The global options. */
struct output_options {
	bool json; /* --json, --pretty */
	bool pretty; /* --pretty */
	int verbose; /* -v: libbpf's messages, what flows know; -vv: the verifier's log */
};
extern struct output_options output;

enum style {
	STYLE_NONE,
	STYLE_HEAD,
	STYLE_GOOD,
	STYLE_BAD,
	STYLE_ERROR
};

/*
 * The escape sequence of a style for this stream: "" where colours are not
 * wanted.
 */
const char *output_style(FILE *to, enum style style);

/*
 * In place: what is no UTF-8 and what a terminal would obey becomes "?". Names of
 * devices, files and arguments may hold any byte. Returns the string.
 */
char *make_printable(char *string);

/* A string of JSON, printable; NULL becomes null. */
struct json_object *json_text(const char *string);

/* Members of a JSON object. A string that is NULL becomes null. */
void add_text(struct json_object *doc, const char *key, const char *value);
void add_number(struct json_object *doc, const char *key, uint64_t value);
void add_bool(struct json_object *doc, const char *key, bool value);

/* Write a document and a newline, and free it. */
void output_json_to(FILE *to, struct json_object *doc);
void output_json(struct json_object *doc);

/*
 * A command's answer: written under -j unless `err`, an exit code, says that it
 * failed. Freed. Returns `err`.
 */
int output_answer(int err, struct json_object *doc);

/*
 * Write a document with a long last array, item by item, so that it need never
 * be in memory as a whole: `envelope` ends with an empty array. Each of the
 * objects is freed.
 */
struct json_list;
struct json_list *output_json_open(struct json_object *envelope);
void output_json_item(struct json_list *list, struct json_object *item);
void output_json_close(struct json_list *list);

/*
 * Flush stdout. Returns EXIT_OK, or EXIT_FAILED after saying that it could not
 * be written (full disk, closed). A signal that ends the wait for a reader is no failure.
 */
int output_finish(void);

/* Throw away what has not been written to stdout, and its error. */
void output_discard(void);

/* One column of a table. */
struct column {
	const char *title;
	bool right; /* align right: numbers */
	bool elastic; /* may be shortened with … when the table is too wide */
};

struct table;

/*
 * A table; `columns` must live as long as it. Aborts where there is no memory,
 * like every allocation here.
 */
struct table *table_new(const struct column *columns, unsigned int n);
/* The next cell, row by row. */
void table_cell(struct table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The next cell, with a style. */
void table_styled(struct table *table, enum style style, const char *string);
/* A line below the row that has just been filled. */
void table_note(struct table *table, const char *string);
/* Print it (heading first) and free it. */
void table_print(struct table *table);

/*
 * Allocate zeroed, or end with a message: a command line tool has nothing
 * better to do.
 */
void *must_alloc(size_t n, size_t size);
void *must_grow(void *old, size_t bytes);
char *must_copy(const char *string);

/*
 * Quantities for a person, in text()'s buffers: us as ms (0.4, 40.2, 1205),
 * bit/s (18.4M), ns as an age (3min).
 */
const char *human_ms(uint64_t us);
const char *human_bps(uint64_t bps);
const char *human_age(uint64_t ns);

#endif
