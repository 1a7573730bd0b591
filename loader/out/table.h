/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A table for a person: at most as wide as the terminal. In a file or a pipe nothing is cut, unless
 * COLUMNS says how wide it may be.
 */
#ifndef CCBPF_TABLE_H
#define CCBPF_TABLE_H

#include <stdbool.h>

#include "out/output.h"

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
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next cell, with a style. */
void table_styled(struct table *table, enum style style, const char *string);
/* Words below the row that has just been filled, wrapped. */
void table_note(struct table *table, const char *string);
/* Print it (heading first) and free it. */
void table_print(struct table *table);

#endif
