// SPDX-License-Identifier: GPL-2.0-only
/* Text in buffers: see text.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/memory.h"
#include "util/text.h"

/* One text. Each has an allocation of its own, so that ASan and valgrind see a text that
 * is used after its round, or written beyond its end. */
struct text_block {
	struct text_block *before;
	char string[];
};

static struct text_block *newest;

char *text(const char *format, ...)
{
	char buffer[TEXT_MOST];
	struct text_block *block;
	va_list args;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	block = must_alloc(1, sizeof(*block) + strlen(buffer) + 1);
	strcpy(block->string, buffer);
	block->before = newest;
	newest = block;
	return block->string;
}

const struct text_block *text_mark(void)
{
	return newest;
}

void text_release(const struct text_block *mark)
{
	while (newest && newest != mark) {
		struct text_block *block = newest;

		newest = block->before;
		free(block);
	}
}

void append(char *buffer, unsigned int size, const char *separator, const char *format, ...)
{
	unsigned int used = strlen(buffer);
	va_list args;

	if (used)
		used += snprintf(buffer + used, size - used, "%s", separator);
	if (used >= size)
		return;
	va_start(args, format);
	vsnprintf(buffer + used, size - used, format, args);
	va_end(args);
}
