/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Output: the global options, styles, and lines for a person. Tables are in table.h,
 * JSON in json.h. Colours only on a terminal, and not if NO_COLOR is set.
 */
#ifndef CCBPF_OUTPUT_H
#define CCBPF_OUTPUT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* The global options. */
struct output_options {
	bool json; /* --json, --pretty */
	bool pretty; /* --pretty */
	bool recorded; /* the JSON goes to a file: errors and notes are for a person */
	int verbose; /* -v: libbpf's messages, what flows know; -vv: the verifier's counts */
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
 * Print one line for a person, printable. Whatever may hold a string that is not
 * ours is printed by this, by a table, or as JSON; never by printf().
 */
void output_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print what a library says: any number of lines, each printable. Returns their bytes. */
int output_log(FILE *to, const char *format, va_list args);

/*
 * Flush stdout. Returns EXIT_OK, or EXIT_FAILED after saying that it could not
 * be written (full disk, closed). A signal that ends the wait for a reader is no failure.
 */
int output_finish(void);

/* Throw away what has not been written to stdout, and its error. */
void output_discard(void);

#endif
