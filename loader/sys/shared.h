/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The maps that all controllers share, pinned in the root: `flows`, `events`,
 * `stats`, `totals`, `unit_totals`, `listener`. What holds receive windows has the first one.
 */
#ifndef CCBPF_SHARED_H
#define CCBPF_SHARED_H

#include <bpf/libbpf.h>

enum shared {
	SHARED_FLOWS,
	SHARED_EVENTS,
	SHARED_STATS,
	SHARED_TOTALS,
	SHARED_UNITS,
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

/* The same in silence. Returns its descriptor, or an error as pin_open_map does. */
int shared_open_quietly(enum shared map);

/*
 * Let an object that is not yet loaded use the pinned maps. Returns EXIT_OK or
 * the exit code.
 */
int shared_adopt(const char *what, struct bpf_object *obj);
int shared_adopt_one(const char *what, struct bpf_object *obj, enum shared shared);

/*
 * Pin those maps of a loaded object that are not pinned yet. Returns EXIT_OK or
 * the exit code.
 */
int shared_pin(const char *what, struct bpf_object *obj);
int shared_pin_one(const char *what, struct bpf_object *obj, enum shared shared);

#endif
