/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the programs need of the kernel, read from their own BTF: the members of
 * the kernel's structures that they name (CO-RE) and the kernel functions that
 * they call. So the loader need not know what an algorithm reads.
 */
#ifndef CCBPF_NEEDS_H
#define CCBPF_NEEDS_H

#include <stdbool.h>

/*
 * Compare what an embedded object (objects.h) names with this kernel. Puts what is
 * missing behind the texts `members` and `functions` (", " between), each of
 * `size` bytes. What the programs can do without is not counted. Returns 0, or
 * -errno where one of the two BTFs cannot be read.
 */
int needs_missing(const char *object, const char *end, char *members, char *functions,
		  unsigned int size);

/* Whether this kernel's structure has the member. */
bool needs_kernel_has(const char *structure, const char *member);

#endif
