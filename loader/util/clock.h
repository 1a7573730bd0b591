/* SPDX-License-Identifier: GPL-2.0-only */
/* The clock of the programs. */
#ifndef CCBPF_CLOCK_H
#define CCBPF_CLOCK_H

#include <stdint.h>

/*
 * The CLOCK_MONOTONIC that programs read, ns: the host's. In a time namespace
 * clock_gettime() gives another one.
 */
uint64_t monotonic_ns(void);

/* ns since then; 0 for a time that has not come yet. */
uint64_t age_ns(uint64_t since_ns);

#endif
