/* SPDX-License-Identifier: GPL-2.0-only */
/* Prefixes of addresses, as a user gives them: ADDRESS or ADDRESS/LENGTH. IPv4 is ::ffff:a.b.c.d. */
#ifndef CCBPF_PREFIX_H
#define CCBPF_PREFIX_H

#include "ccbpf/rule.h"

/* Read one. `option`: which one gives it, for the error. Returns EXIT_OK, or EXIT_USAGE after saying what is wrong. */
int prefix_parse(const char *what, const char *option, const char *given,
		 struct ccbpf_prefix *prefix);

#define PREFIX_BITS 128 /* of an address */

/* Its first `bits` (0 to 128), and zeroes behind them. */
struct ccbpf_prefix prefix_cut(const struct ccbpf_prefix *prefix, unsigned int bits);

/* The same as text(). */
const char *prefix_text(const struct ccbpf_prefix *prefix);

#endif
