/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The standing rules: the program bpf/assign.bpf.c at the root cgroup, held by the pin
 * <root>/rules/link. That link is all there is: the rules are read from the maps of the
 * program that it holds, and another set of rules is another program, which takes the
 * place of the one before at once. So a kill at any instant leaves the old rules or the
 * new ones.
 *
 * What sockets remember goes on from program to program. When the last rule for downloads goes,
 * the program that follows opens the windows that are held; where none follows, one without
 * rules does, for a moment.
 */
#ifndef CCBPF_STANDING_H
#define CCBPF_STANDING_H

#include <json-c/json.h>
#include <stdbool.h>

#include "ccbpf/rule.h"

#define STANDING_DIR "rules"

struct standing {
	struct ccbpf_rule *rules; /* in the order in which they win */
	struct ccbpf_choice_counts *counts; /* of each */
	unsigned int n;
	__u32 next; /* the id of the next one; 0: none was given */
	bool detached; /* somebody detached the link: they are not in force */
	int link_fd; /* -1: there is none */
	int counts_fd;
	int ruled_fd; /* storage of the sockets that a rule reached; negative: unknown */
	int receives_fd; /* the same of those whose receive window it holds */
};

#define STANDING_NONE { .link_fd = -1, .counts_fd = -1, .ruled_fd = -1, .receives_fd = -1 }

/*
 * Read those that are in force; needs a lock. Returns EXIT_OK also where there are none, or the
 * exit code after saying why they cannot be read.
 */
int standing_read(const char *what, struct standing *out);

/* The same in silence. Returns 0 or -errno. */
int standing_read_quietly(struct standing *out);

/* The rule with this id; NULL: there is none. */
const struct ccbpf_rule *standing_rule(const struct standing *standing, __u32 id);

/* A copy, with descriptors of its own. */
struct standing standing_copy(const struct standing *standing);

/* Add one; its id is given by this: none that a rule has had since there were none. Not in force
 * before standing_write(). */
void standing_add(struct standing *standing, struct ccbpf_rule *rule);

/* Take away number `i`. */
void standing_drop(struct standing *standing, unsigned int i);

/*
 * Put them in force: all, or the ones before stay. None: the program goes. Needs the lock for a
 * change. Returns EXIT_OK, or the exit code after saying why not.
 */
int standing_write(const char *what, struct standing *standing);

void standing_close(struct standing *standing);

/* Whether a rule for downloads is in force, so that its records in `flows` are written. */
bool standing_receives(void);

/* Whether the program of the rules is pinned, which writes the shared maps. */
bool standing_is_pinned(void);

/*
 * Remove what an interrupted command left; with `all`, the rules as well. `removed`: an array
 * that gets the paths, or NULL. Returns EXIT_OK or the exit code.
 */
int standing_sweep(const char *what, bool all, struct json_object *removed);

/* Add what lies below <root>/rules and is not ours. */
void standing_collect_foreign(struct json_object *foreign);

#endif
