/* SPDX-License-Identifier: GPL-2.0-only */
/* Counters that each CPU keeps for itself. */
#ifndef CCBPF_PERCPU_H
#define CCBPF_PERCPU_H

#include <linux/types.h>
#include <stddef.h>

/* Add up one element of a per-CPU array over the CPUs. Its value is `bytes` of __u64 counters. Returns
 * 0 or -errno; then all are 0. */
int percpu_sum(int fd, __u32 key, void *sum, size_t bytes);

#endif
