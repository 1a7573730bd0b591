/* SPDX-License-Identifier: GPL-2.0-only */
/* What a flow did in the last periods of `ccbpf top`, for the curves of its detail. */
#ifndef CCBPF_TOP_HISTORY_H
#define CCBPF_TOP_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#define HISTORY_MOST 60 /* periods; older ones are forgotten */

/* What there is a curve of. */
enum curve {
	CURVE_RATE, /* bit/s */
	CURVE_WINDOW, /* packets */
	CURVE_DELAY, /* us */
	CURVES
};

/* 724 bytes a flow. */
struct history {
	float values[CURVES][HISTORY_MOST]; /* as a ring */
	uint32_t n; /* periods, also those that are forgotten */
};

/* One period more. `*history` NULL: it is the first. */
void history_add(struct history **history, const double values[CURVES]);

/* How many of the last periods there are, at most `most`. NULL: none. */
unsigned int history_length(const struct history *history, unsigned int most);

/* The largest of the last `length` values of a curve, and the last one. */
double history_largest(const struct history *history, enum curve curve, unsigned int length);
double history_last(const struct history *history, enum curve curve);

/*
 * The last `length` values of a curve, a character for each, from 0 to the largest: blocks of
 * eighths, or without `utf8` eight characters of ASCII. A text().
 */
const char *history_line(const struct history *history, enum curve curve, unsigned int length,
			 bool utf8);

#endif
