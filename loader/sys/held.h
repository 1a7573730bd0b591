/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which process holds which socket, and the cgroup of that socket, as bpf/held.bpf.c finds it: of all
 * network namespaces, in one walk over all open files.
 */
#ifndef CCBPF_HELD_H
#define CCBPF_HELD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct held {
	struct held_socket {
		uint64_t flow; /* key of its record in `flows` */
		uint64_t cgroup; /* its id */
		pid_t pid;
	} *all; /* by flow, then by pid */
	size_t n;
};

/* Read them. Where the kernel has no such iterator there are none. */
struct held held_read(void);
void held_free(struct held *held);

/* That of the process with the lowest id; NULL: no process holds it. */
const struct held_socket *held_of(const struct held *held, uint64_t flow);

#endif
