/* SPDX-License-Identifier: GPL-2.0-only */
/* The name that a misspelt word was meant to be. */
#ifndef CCBPF_NEAREST_H
#define CCBPF_NEAREST_H

#include <stddef.h>

/*
 * Which of the n names is nearest to `word`, or NULL where more than a third of its letters would
 * have to change. `stride` bytes lie between two pointers.
 */
const char *nearest(const char *word, const void *names, unsigned int n, size_t stride);

#endif
