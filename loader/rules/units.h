/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The programs that units of systemd name: bpf/unit.bpf.c, one for each controller, pinned as
 * <root>/units/<controller>, and one for what is received, <root>/units/rx_le. systemd attaches it
 * to the cgroups of such units when they start. It needs no enabled controller; without one the
 * connections have their default.
 */
#ifndef CCBPF_UNITS_H
#define CCBPF_UNITS_H

#include <json-c/json.h>
#include <stdbool.h>

#include "ccbpf/rule.h"

#define UNITS_DIR "units"

/* Path of the pin for a controller, or CCBPF_RECEIVER, below the root, a text(). */
const char *units_pin(const char *controller);

/*
 * Pin the program for a controller, or CCBPF_RECEIVER, unless it is; `restricted`: only for sockets
 * of root. `*did`: it was not. Needs the lock for a change. Returns EXIT_OK, or the exit code after
 * saying why not.
 */
int units_make(const char *what, const char *controller, bool restricted, bool *did);

/* Whether the program for what is received is pinned. */
bool units_receive(void);

/* Remove it. Units that have it keep it until they stop. Returns EXIT_OK or the exit code. */
int units_remove(const char *what, const char *controller);

/* What is pinned. */
struct unit_program {
	char controller[CCBPF_NAME_LEN];
	struct ccbpf_choice_counts counts; /* of all units that name it */
	int chosen_fd; /* storage of the sockets that it reached, to be closed; negative: unknown */
	int receives_fd; /* the same of those whose receive window it holds */
};

/* All, in memory to be freed after their descriptors are closed; needs a lock. */
unsigned int units_read(struct unit_program **out);
void units_free(struct unit_program *units, unsigned int n);

/* With `all`, remove all; `removed`: an array that gets their paths, or NULL. */
int units_sweep(const char *what, bool all, struct json_object *removed);

/* Add what lies below <root>/units and is not ours. */
void units_collect_foreign(struct json_object *foreign);

/* For `status`; needs a lock. */
struct json_object *units_json(void);
void units_print(void);

#endif
