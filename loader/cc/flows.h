/* SPDX-License-Identifier: GPL-2.0-only */
/* The records of the map `flows`, and how many there are of a controller. */
#ifndef CCBPF_FLOWS_H
#define CCBPF_FLOWS_H

#include <stddef.h>

#include "cc/controllers.h"
#include "ccbpf/flow.h"

/* A record of `flows` with its key. */
struct flow {
	__u64 key;
	struct ccbpf_flow record;
};

/* Read all records behind `fd` into memory to be freed. Returns 0 or -errno. */
int flows_read(int fd, struct flow **flows, size_t *n);

/*
 * How many flows an instance of a controller serves, and how many older ones
 * still do.
 */
struct flow_counts {
	size_t now, draining;
};

/* Count the flows of `c` in an array. `instance` 0: all are draining. */
struct flow_counts flows_count(const struct flow *flows, size_t n, const struct controller *c,
			       __u64 instance);

#endif
