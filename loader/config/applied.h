/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the file of `ccbpf apply` has, apart from rules, as it was applied last: the map
 * <root>/applied. What is in it and no longer in the file goes with the next apply; what never was
 * in it was made by hand, and stays. (A rule says so by itself: `place` in ccbpf/rule.h.)
 */
#ifndef CCBPF_CONFIG_APPLIED_H
#define CCBPF_CONFIG_APPLIED_H

#include <stdint.h>

#define PINS_APPLIED "applied"

struct applied {
	uint32_t controllers; /* bit enum ccbpf_kind: the file wants it enabled */
	uint32_t default_kind; /* enum ccbpf_kind of the default that it sets, or 0 */
	uint32_t ecn; /* 1: it sets net.ipv4.tcp_ecn */
};

/* Read it: zeroes where there is none. Returns EXIT_OK, or the exit code after saying why not. */
int applied_read(const char *what, struct applied *out);

/* Write it; needs the lock for a change. Zeroes: the pin goes. Returns as above. */
int applied_write(const char *what, const struct applied *applied);

#endif
