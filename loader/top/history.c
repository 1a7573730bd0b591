// SPDX-License-Identifier: GPL-2.0-only
/* What a flow did in the last periods: see history.h. */
#include <string.h>

#include "top/history.h"
#include "util/memory.h"
#include "util/text.h"

#define LEVELS 8
#define BYTES_MOST 3 /* of a block in UTF-8 */

void history_add(struct history **history, const double values[CURVES])
{
	struct history *to = *history;

	if (!to)
		*history = to = must_alloc(1, sizeof(*to));
	for (unsigned int i = 0; i < CURVES; i++)
		to->values[i][to->n % HISTORY_MOST] = values[i];
	to->n++;
}

unsigned int history_length(const struct history *history, unsigned int most)
{
	unsigned int length = !history ? 0 : history->n < HISTORY_MOST ? history->n : HISTORY_MOST;

	return length < most ? length : most;
}

/* The value `back` periods ago; 1 is the last one. */
static double value_of(const struct history *history, enum curve curve, unsigned int back)
{
	return history->values[curve][(history->n - back) % HISTORY_MOST];
}

double history_last(const struct history *history, enum curve curve)
{
	return history_length(history, 1) ? value_of(history, curve, 1) : 0;
}

double history_largest(const struct history *history, enum curve curve, unsigned int length)
{
	double largest = 0;

	for (unsigned int back = length; back; back--)
		if (value_of(history, curve, back) > largest)
			largest = value_of(history, curve, back);
	return largest;
}

const char *history_line(const struct history *history, enum curve curve, unsigned int length,
			 bool utf8)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
	double largest = history_largest(history, curve, length);
	char line[HISTORY_MOST * BYTES_MOST + 1], *end = line;

	for (unsigned int back = length; back; back--) {
		double part = largest > 0 ? value_of(history, curve, back) / largest : 0;
		unsigned int level = part * (LEVELS - 1) + 0.5;

		end = stpcpy(end, utf8 ? blocks[level] : ascii[level]);
	}
	*end = '\0';
	return text("%s", line);
}
