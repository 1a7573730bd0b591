/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The network namespaces of this system, as far as they can be found: this process's, those
 * that are mounted (`ip netns`, container runtimes), and those of all threads. One that only
 * a socket or a descriptor keeps alive is not found.
 */
#ifndef CCBPF_NAMESPACES_H
#define CCBPF_NAMESPACES_H

#include <stdbool.h>
#include <sys/types.h>

struct netns {
	ino_t inode; /* names it uniquely, also in `ip netns` and lsns(8) */
	const char *name; /* "this", its mount's, or a process's: a text() */
	bool own; /* this process's */
	int fd; /* to enter it; negative: -errno of opening it */
};

/*
 * Call `each` for every namespace once, this process's first. Only meanwhile its
 * descriptor is open. Ends with the first error that `each` returns, else with EXIT_OK;
 * where its own cannot be read, with the exit code after saying so.
 */
int netns_each(const char *what, int (*each)(void *data, const struct netns *netns), void *data);

/*
 * Call `make` in a namespace, and come back. Returns what `make` returns, which is a
 * descriptor or -errno; -errno where the namespace cannot be entered. The process ends
 * where there is no way back.
 */
int netns_inside(const char *what, const struct netns *netns, int (*make)(void *data), void *data);

#endif
