/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory. Where there is none left the process ends: a command line tool has
 * nothing better to do.
 */
#ifndef CCBPF_MEMORY_H
#define CCBPF_MEMORY_H

#include <stddef.h>

/* Allocate zeroed. */
void *must_alloc(size_t n, size_t size);

void *must_grow(void *old, size_t bytes);
char *must_copy(const char *string);

/* End the process, after calling `memory_exhausted` to say why. */
void __attribute__((noreturn)) out_of_memory(void);

/*
 * Says that there is no memory, in the form that the user asked for. main() sets
 * it, because this room does not know how errors are printed.
 */
extern void (*memory_exhausted)(void);

#endif
