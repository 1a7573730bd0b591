/* SPDX-License-Identifier: GPL-2.0-only */
/* The records that a BPF iterator writes. */
#ifndef CCBPF_RECORDS_H
#define CCBPF_RECORDS_H

#include <stddef.h>

/*
 * Read them all from the iterator behind `fd`, each of `size` bytes, and call `each` for every
 * one. Returns 0 or -errno.
 */
int records_read(int fd, size_t size, void (*each)(void *data, const void *record), void *data);

#endif
