// SPDX-License-Identifier: GPL-2.0-only
/* The name that a misspelt word was meant to be: see nearest.h. */
#include <string.h>

#include "util/nearest.h"

#define LONGEST 31

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/*
 * How many letters must be put in, left out, replaced or swapped with their neighbour (the optimal
 * string alignment distance); more than LONGEST where b is longer.
 */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int rows[3][LONGEST + 1], n = strlen(b), i;

	if (n > LONGEST)
		return n;
	for (unsigned int j = 0; j <= n; j++)
		rows[0][j] = j;
	for (i = 1; a[i - 1]; i++) {
		unsigned int *row = rows[i % 3];
		const unsigned int *last = rows[(i + 2) % 3], *older = rows[(i + 1) % 3];

		row[0] = i;
		for (unsigned int j = 1; j <= n; j++) {
			row[j] = last[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = least(row[j], least(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], older[j - 2] + 1);
		}
	}
	return rows[(i + 2) % 3][n];
}

const char *nearest(const char *word, const void *names, unsigned int n, size_t stride)
{
	unsigned int best = strlen(word) / 3 + 1; /* a third of it wrong is a typo, more is not */
	const char *found = NULL;

	for (unsigned int i = 0; i < n; i++) {
		const char *name = *(const char *const *)((const char *)names + i * stride);
		unsigned int d = distance(word, name);

		if (d < best) {
			best = d;
			found = name;
		}
	}
	return found;
}
