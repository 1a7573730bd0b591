/* SPDX-License-Identifier: GPL-2.0-only */
/* Small files of /proc and /sys. */
#ifndef CCBPF_FILE_H
#define CCBPF_FILE_H

/*
 * The first line of a file without its newline, in a buffer of `size` bytes.
 * Returns 0 or -errno.
 */
int read_line(const char *path, char *buffer, unsigned int size);

#endif
