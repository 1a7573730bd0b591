/* SPDX-License-Identifier: GPL-2.0-only */
/* Standing rules as the program takes them: sorted, and in sets. See bpf/assign.bpf.c. */
#ifndef CCBPF_RULES_SETS_H
#define CCBPF_RULES_SETS_H

#include <bpf/libbpf.h>

#include "ccbpf/rule.h"

/*
 * The order in which rules win, for qsort():
 *   1. --not without --remote
 *   2. the longer prefix
 *   3. --not
 *   4. more conditions
 *   5. the one made by hand; of a file's, the one that stands first in it
 *   6. the older one
 */
int rule_order(const void *a, const void *b);

/* Fill the maps of a loaded object, which prefixes_prepare() has seen before, with sorted rules. Returns 0 or
 * -errno. */
int sets_fill(const struct bpf_object *obj, const struct ccbpf_rule *rules, unsigned int n);

#endif
