/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The maps that programs share, pinned in the root: `flows`, `events`, `stats`, `totals`,
 * `unit_totals`, `rule_totals`, `ruled`, `listener`. A controller has all of them, what holds
 * receive windows has `flows`, `events`, `stats` and `listener`, the program of the standing rules
 * these four and `ruled`, and the program of a run has `flows`.
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
	SHARED_RULES, /* their totals */
	SHARED_RULED, /* which sockets they reached */
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
 * Load an object, so that it uses the pinned ones of those that it has; pin the others. Returns
 * EXIT_OK or the exit code.
 */
int shared_load(const char *what, struct bpf_object *obj);

/*
 * Load one that makes no records, but may end those of the one before it: it uses what is pinned and pins
 * nothing. What is not pinned it has for itself, as small as it can be. The same returns.
 */
int shared_load_without(const char *what, struct bpf_object *obj);

#endif
