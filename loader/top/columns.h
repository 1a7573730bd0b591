/* SPDX-License-Identifier: GPL-2.0-only */
/* The columns of `ccbpf top`: what each says of a flow, and which have room on a screen. */
#ifndef CCBPF_TOP_COLUMNS_H
#define CCBPF_TOP_COLUMNS_H

#include <limits.h>

#include "top/model.h"

struct top_column {
	const char *title;
	int width; /* the least width of an elastic column */
	int from; /* columns of the screen from which on it is shown */
	int from_mixed; /* the same where a group has flows of several controllers */
	bool right, elastic;
	bool who; /* it says which flow it is: shown also of one that has ended */
	const char *(*cell)(const struct watched *watched, uint64_t now_ns); /* a text() */
};

extern const struct top_column top_columns[];
extern const unsigned int n_top_columns;

#define TOP_NEVER INT_MAX /* columns: no screen is so wide */

/* Is it shown on a screen of this width? */
bool top_column_shown(const struct top_column *column, int width, bool mixed);

#define TOP_BAR 8 /* cells of the bar: the last one is for what is above the threshold */

/* "ended 3 s ago", a text(). */
const char *watched_ended(const struct watched *watched, uint64_t now_ns);

/* "3 flows, 487k bit/s, 2 yield (1 delay, 1 loss), 1 ended", a text(). */
const char *sum_words(const struct sum *sum);

#endif
