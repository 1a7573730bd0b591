/* SPDX-License-Identifier: GPL-2.0-only */
/* Small files of /proc and /sys, and of users. */
#ifndef CCBPF_FILE_H
#define CCBPF_FILE_H

#include <stddef.h>

/*
 * The first line of a file without its newline, in a buffer of `size` bytes.
 * Returns 0 or -errno.
 */
int read_line(const char *path, char *buffer, unsigned int size);

/*
 * All of it, also to a socket. Returns 0 or -errno; -EPIPE where nobody reads any more, if SIGPIPE
 * is ignored.
 */
int write_all(int fd, const void *from, size_t size);

/*
 * Write a file, readable by all, and put it in the place of another one at once. A link is
 * followed to no file: it is replaced. Returns 0 or -errno; then the old one stays.
 */
int replace_file(const char *path, const char *data, size_t size);

#endif
