// SPDX-License-Identifier: GPL-2.0-only
/* Memory: see memory.h. */
#include <stdlib.h>
#include <string.h>

#include "util/memory.h"

void (*memory_exhausted)(void);

void out_of_memory(void)
{
	void (*say)(void) = memory_exhausted;

	memory_exhausted = NULL; /* saying it may need memory as well */
	if (say)
		say();
	exit(EXIT_FAILURE);
}

void *must_alloc(size_t n, size_t size)
{
	void *memory = calloc(n ?: 1, size ?: 1);

	if (!memory)
		out_of_memory();
	return memory;
}

void *must_grow(void *old, size_t bytes)
{
	void *memory = realloc(old, bytes);

	if (!memory)
		out_of_memory();
	return memory;
}

char *must_copy(const char *string)
{
	size_t size = strlen(string) + 1;

	return memcpy(must_alloc(1, size), string, size);
}
