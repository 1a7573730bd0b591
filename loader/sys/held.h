/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which process holds which socket, as bpf/held.bpf.c finds it: of all network namespaces, in one walk
 * over all open files.
 */
#ifndef CCBPF_HELD_H
#define CCBPF_HELD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct held {
	struct held_socket {
		uint64_t flow; /* key of its record in `flows` */
		pid_t pid;
	} *all; /* by flow, then by pid, each pair once */
	size_t n;
};

/* Read them: those that the process may see. Where the kernel has no such iterator there are none. */
struct held held_read(void);
void held_free(struct held *held);

/* That of the process with the lowest id, and how many processes there are in `*n`, which follow it;
 * NULL: no process holds it. */
const struct held_socket *held_of(const struct held *held, uint64_t flow, size_t *n);

#endif
