/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What runs: one controller as its pins tell (sys/attachment.h). A link holds the
 * registration where the kernel has struct_ops links; elsewhere the struct_ops
 * map itself does (`ops` in place of `link`).
 */
#ifndef CCBPF_RUNNING_H
#define CCBPF_RUNNING_H

#include <json-c/json.h>

#include "cc/controllers.h"
#include "cc/params.h"
#include "ccbpf/identity.h"

#define PIN_OPS "ops"

struct running {
	struct attachment attachment; /* it holds the struct_ops map */
	const struct controller *controller;
	int params_fd; /* -1: not readable or of another layout */
	int params_err; /* why: as pin_open_map returns it */
	struct ccbpf_identity identity; /* zeroes where not readable or of
					   another ABI */
};

/* The word of its state for `status` and JSON. */
const char *running_word(const struct running *running);

/* Of `c`, before its pins are read. */
struct running running_of(const struct controller *c);

/*
 * Read the pins of `c`. Returns EXIT_OK whatever the state is, or the exit code
 * after saying what is refused.
 */
int running_open(const char *what, const struct controller *c, struct running *running);

void running_close(struct running *running);

/* Whether it is enabled. */
bool running_is_enabled(const struct running *running);

/* The same of `c`, as far as that can be told. */
bool controller_is_enabled(const struct controller *c);

/*
 * Say that it is not enabled, in the words of its state. Returns EXIT_NOTHING,
 * or EXIT_FAILED if unreadable.
 */
int running_absent(const char *what, const struct running *running);

/* Say that no controller is enabled, so that there is nothing to see. Returns EXIT_NOTHING. */
int running_none(const char *what, const char *on);

/* Say why there are no flows to be watched, if so. */
int running_require_flows(const char *what);

/*
 * Lock the pins to change what runs. Where there are none, say that `first`, of
 * those that are named, is not enabled. Returns EXIT_OK or the exit code.
 */
int running_lock(const char *what, const struct controller *first);

/* "link 12", or "map 12" without links: a text(). */
const char *running_handle(const struct running *running);

/* {"name", "link_id", "map_id", "instance"} of what is enabled. */
struct json_object *running_json(const struct running *running);

#endif
