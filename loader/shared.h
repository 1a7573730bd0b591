/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The maps that all controllers share, pinned in the root: `flows`, `events`,
 * `stats`, `listener`.
 */
#ifndef CCBPF_SHARED_H
#define CCBPF_SHARED_H

#include <bpf/libbpf.h>
#include <json-c/json.h>

#include "ccbpf/flow.h"
#include "ccbpf/identity.h"
#include "ccbpf/stats.h"
#include "controllers.h"

enum shared {
	SHARED_FLOWS,
	SHARED_EVENTS,
	SHARED_STATS,
	SHARED_LISTENER,
	SHARED_MAPS
};

/* The pin's name of a shared map. */
const char *shared_name(enum shared map);

/*
 * Open a pinned shared map. `*fd` is -1 where it is not pinned. Returns
 * EXIT_OK, or the exit code after saying that the pin is of no use.
 */
int shared_open(const char *what, enum shared map, int *fd);

/*
 * Let an object that is not yet loaded use the pinned maps. Returns EXIT_OK or
 * the exit code.
 */
int shared_adopt(const char *what, struct bpf_object *obj);

/*
 * Pin those maps of a loaded object that are not pinned yet. Returns EXIT_OK or
 * the exit code.
 */
int shared_pin(const char *what, struct bpf_object *obj);

/* Remove the pins. Returns 0 or the last -errno. */
int shared_remove(void);

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
struct flow_counts flows_count(const struct flow *flows, size_t n,
			       const struct controller *c, __u64 instance);

/* Sum a controller's statistics over the CPUs. Returns 0 or -errno. */
int stats_read(int fd, const struct controller *c, struct ccbpf_stats *sum);

/* {"flows_opened": n, …} */
struct json_object *stats_json(const struct ccbpf_stats *stats);

#endif
