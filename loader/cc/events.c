// SPDX-License-Identifier: GPL-2.0-only
/* The types of events: see events.h. */
#include <stdio.h>
#include <string.h>

#include "cc/events.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* "what it says; a: SMOOTHED, b: THRESHOLD": the two words behind. */
static void split_text(const char *string, struct event_type *type)
{
	const char *a = strstr(string, "; a: ");
	const char *b = a ? strstr(a, ", b: ") : NULL;

	if (!b)
		return;
	snprintf(type->a, sizeof(type->a), "%.*s", (int)(b - a - 5), a + 5);
	snprintf(type->b, sizeof(type->b), "%s", b + 5);
}

const struct event_type *event_type_of(__u32 type)
{
	static struct event_type types[] = {
#define X(number, name, word_, text_) [number] = { .word = word_, .text = text_ },
		CCBPF_EVENTS(X)
#undef X
	};

	if (type >= COUNT(types) || !types[type].word)
		return NULL;
	if (!*types[type].a)
		split_text(types[type].text, &types[type]);
	return &types[type];
}
