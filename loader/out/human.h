/* SPDX-License-Identifier: GPL-2.0-only */
/* Quantities for a person. */
#ifndef CCBPF_HUMAN_H
#define CCBPF_HUMAN_H

#include <stdint.h>

/*
 * Quantities for a person, each a text(): us as ms (0.4, 40.2, 1205),
 * bit/s (18.4M), bytes (18.4 MB), ns as an age (3min).
 */
const char *human_ms(uint64_t us);
const char *human_bps(uint64_t bps);
const char *human_bytes(uint64_t bytes);
const char *human_age(uint64_t ns);

#endif
