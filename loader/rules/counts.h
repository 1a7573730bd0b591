/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The counters of the rules, by their ids. Those of a rule that is no more are dropped after the
 * windows that it held are open: so while there are some, that may be to be done.
 */
#ifndef CCBPF_RULES_COUNTS_H
#define CCBPF_RULES_COUNTS_H

#include <stdbool.h>

#include "ccbpf/rule.h"

/* Give each rule counters, unless it has some. Returns 0 or -errno. */
int counts_fill(int fd, const struct ccbpf_rule *rules, unsigned int n);

/* Whether there are some of rules that are no more. */
bool counts_are_stale(int fd, const struct ccbpf_rule *rules, unsigned int n);

/* Drop those. */
void counts_drop(int fd, const struct ccbpf_rule *rules, unsigned int n);

#endif
