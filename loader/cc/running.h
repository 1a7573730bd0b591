/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What runs: the state of one controller as its pins tell it. A link holds the
 * registration where the kernel has struct_ops links; elsewhere the struct_ops
 * map itself does (`ops` in place of `link`).
 */
#ifndef CCBPF_RUNNING_H
#define CCBPF_RUNNING_H

#include <json-c/json.h>

#include "cc/controllers.h"
#include "cc/params.h"
#include "ccbpf/identity.h"

enum run_state {
	RUN_ABSENT, /* no pins */
	RUN_STALE, /* pins of an interrupted ccbpf */
	RUN_DETACHED, /* its link is there, but somebody detached it */
	RUN_ENABLED,
	RUN_UNREADABLE, /* the pin of its link is something else */
};

struct running {
	const struct controller *controller;
	enum run_state state;
	int hold_fd; /* the link, or the struct_ops map */
	bool by_link;
	uint32_t link_id; /* 0 without links */
	uint32_t ops_id; /* the struct_ops map */
	int params_fd; /* -1: not readable or of another layout */
	int params_err; /* why: as pin_open_map returns it */
	struct ccbpf_identity identity; /* zeroes where not readable or of
					   another ABI */
};

/* The word of a state for `status` and JSON. */
const char *run_state_word(enum run_state state);

/*
 * Read the pins of `c`. Returns EXIT_OK whatever the state is, or the exit code
 * after saying what is refused.
 */
int running_open(const char *what, const struct controller *c, struct running *running);

void running_close(struct running *running);

/* Whether it is enabled, as far as that can be told. */
bool running_is_enabled(const struct controller *c);

/* Finish what an interrupted reload left (needs the lock for a change). */
void running_settle(const struct running *running);

/* Whether the state has pins that the next change should clean up. */
bool running_is_rest(const struct running *running);

/*
 * Unregister and remove the pins. Returns EXIT_OK, or the exit code after
 * saying what could not be removed.
 */
int running_remove(const char *what, struct running *running);

/*
 * Say that it is not enabled, in the words of its state. Returns EXIT_NOTHING,
 * or EXIT_FAILED if unreadable.
 */
int running_absent(const char *what, const struct running *running);

/* Say that no controller is enabled. Returns EXIT_NOTHING. */
int running_none(const char *what, const char *on);

/*
 * Lock the pins to change what runs. Where there are none, say that `first`, of
 * those that are named, is not enabled; NULL: that none is. Returns EXIT_OK or
 * the exit code.
 */
int running_lock(const char *what, const struct controller *first);

/* "link 12", or "map 12" without links: a text(). */
const char *running_handle(const struct running *running);

/* {"name", "link_id", "map_id", "instance"} of what is enabled. */
struct json_object *running_json(const struct running *running);

/* Whether a controller's directory has a pin of this name. */
bool running_is_pin(const char *name);

/* Pin names inside the controller's directory. */
#define PIN_LINK "link"
#define PIN_OPS "ops"
#define PIN_PARAMS "params"
#define PIN_IDENTITY "identity"
#define PIN_NEW \
	"_new" /* behind a name: of a reload under way (bpffs refuses names \
		  with a dot) */

#endif
