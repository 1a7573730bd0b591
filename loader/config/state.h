/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `ccbpf apply` decides on, as it is and as the file wants it:
 *
 *   in the file                        enabled, with exactly these parameters; this default, ECN
 *                                      and rule
 *   not in it, but when last applied   goes; a controller stays while a rule made by hand, a run
 *                                      or a unit of systemd gives it
 *   never in it                        made by hand: stays as it is
 *
 * A controller that only a rule of the file names is enabled as well, with default parameters. If
 * it was enabled by hand, it is left as it is.
 */
#ifndef CCBPF_CONFIG_STATE_H
#define CCBPF_CONFIG_STATE_H

#include "config/applied.h"
#include "config/config.h"
#include "rules/standing.h"

#define STATE_WORD 16 /* bytes of a sysctl's value */

struct state_controller {
	bool enabled;
	int unreadable; /* why its parameters cannot be read, -errno, or 0 */
	struct values values;
	unsigned int line; /* of the file: what wants it; 0: nothing there */
};

struct state {
	const char *file; /* that wants this state, or NULL */
	struct state_controller controllers[CCBPF_KINDS]; /* in the order of controllers[] */
	char cc[STATE_WORD], ecn[STATE_WORD]; /* default, net.ipv4.tcp_ecn */
	struct standing standing; /* in the order in which they win */
	struct applied applied;
};

/* Read what is in force; needs a lock. Returns EXIT_OK or the exit code, said. */
int state_read(const char *what, struct state *out);

/* What the file makes of `now`; needs a lock. The same. */
int state_want(const char *what, const struct config *config, const struct state *now,
	       struct state *out);

void state_free(struct state *state);

/*
 * Add what differs to the array `changes`, for JSON; and, unless output.json, print it, line by
 * line: `+` comes, `-` goes, `~` changes.
 */
void state_differences(const struct state *before, const struct state *after,
		       struct json_object *changes);

/* Whether the rules must be written: also where only their places in the file differ. */
bool state_rules_differ(const struct state *before, const struct state *after);

#endif
