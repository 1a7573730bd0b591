// SPDX-License-Identifier: GPL-2.0-only
/* The name that a misspelt word was meant to be: see nearest.h. */
#include <string.h>

#include "util/nearest.h"

/* Levenshtein's distance, for words of up to 31 characters. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int row[32], n = strlen(b);

	if (n > 31)
		return 32;
	for (unsigned int j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned int i = 1; *a; a++, i++) {
		unsigned int diagonal = row[0];

		row[0] = i;
		for (unsigned int j = 1; j <= n; j++) {
			unsigned int best = diagonal + (*a != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

const char *nearest(const char *word, const void *names, unsigned int n, size_t stride)
{
	unsigned int best = strlen(word) / 3 + 2; /* farther is no typo */
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
