/* SPDX-License-Identifier: GPL-2.0-only */
/* The columns of `ccbpf top`: what each says of a flow, and which have room on a screen. */
#ifndef CCBPF_TOP_COLUMNS_H
#define CCBPF_TOP_COLUMNS_H

#include "top/model.h"

struct top_column {
	const char *title;
	int width; /* the least width of an elastic column */
	int from; /* columns of the screen from which on it is shown */
	bool right, elastic;
	const char *(*cell)(const struct watched *watched, uint64_t now_ns); /* a text() */
};

extern const struct top_column top_columns[];
extern const unsigned int n_top_columns;

#define TOP_BAR 8 /* cells of the bar: the last one is for what is above the threshold */

/* Part of the time watched in which the flow yielded, in percent. */
unsigned int watched_percent(const struct watched *watched);

#endif
