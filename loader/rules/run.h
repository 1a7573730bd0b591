/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A run: one command in a cgroup of its own, with the programs bpf/run.bpf.c and bpf/rx_le.bpf.c at that cgroup.
 *
 *   <root>/runs/<id>/         locked by the `ccbpf run` that waits for the command
 *                    run      what it is, and its cgroup's path: pinned before the cgroup is made
 *                    counts   its account
 *                    link     the program for what it sends, at the cgroup: pinned before the
 *                    receive  command starts; and the one for what it receives
 *
 * Killed at any instant, it leaves at most a directory that nobody locks. What is in it
 * names the cgroup, so that the next command can remove both, as soon as no process is in
 * that cgroup.
 */
#ifndef CCBPF_RUN_H
#define CCBPF_RUN_H

#include <json-c/json.h>
#include <stdbool.h>

#include "ccbpf/rule.h"

enum run_phase {
	RUN_REST, /* nobody needs it: to be removed */
	RUN_LED, /* its `ccbpf run` waits for the command */
	RUN_PREPARED, /* its cgroup waits for commands of a user: see prepared.h */
	RUN_BEHIND, /* the command has ended, or ccbpf was killed, and processes go on */
};

struct run {
	unsigned int id;
	enum run_phase phase;
	bool known; /* `about` could be read */
	struct ccbpf_run about;
	struct ccbpf_run_counts counts;
	uint64_t open_bytes; /* that connections which go on have sent, by their records; 0 where these were not read */
	int lock_fd; /* of the one who leads it, or -1 */
	int cgroup_fd; /* the same */
	int counts_fd; /* the same */
};

/*
 * Make the cgroup and attach the program; needs the lock for a change. `about` says what,
 * except for the cgroup, unless that is a prepared one. Returns EXIT_OK, or the exit code after
 * saying why not: then nothing is left but the maps that it shares with others.
 */
int run_begin(const char *what, const struct ccbpf_run *about, struct run *run);

/*
 * Its command has ended: remove what is not needed any more; needs the lock for a change.
 * Returns how many processes go on in it.
 */
unsigned int run_end(struct run *run);

/* Let go of the descriptors. */
void run_close(struct run *run);

/* Read the account anew. */
void run_count(struct run *run);

/* All runs there are, by id, in memory to be freed. Needs a lock. */
unsigned int runs_read(struct run **out);

/*
 * Remove those that nobody needs; with `all`, also those that are under way: their processes
 * go on in the cgroup above. `removed`: an array that gets their paths, or NULL. Needs the
 * lock for a change. Returns EXIT_OK, or the first exit code.
 */
int runs_sweep(const char *what, bool all, struct json_object *removed);

/*
 * Take back what is prepared at this cgroup: its processes go on, there or in the cgroup above,
 * without the program. Needs the lock for a change. Returns EXIT_OK, EXIT_NOTHING where nothing is
 * prepared, or the exit code after saying why not.
 */
int run_take_back(const char *what, const char *cgroup);

/* Add what lies below <root>/runs and is not ours. */
void runs_collect_foreign(struct json_object *foreign);

/* The storage of the sockets that its program reached: its descriptor or -errno. */
int run_open_chosen(unsigned int id);

/* The same of those whose receive window it holds. */
int run_open_receives(unsigned int id);

/* For `status`. */
const char *run_phase_word(enum run_phase phase);
struct json_object *run_json(const struct run *run);

/* "sent 1.2 GB over 3 connections; …": its account for a person, until the next one is asked for. "; " is between its parts. */
const char *run_words(const struct run *run);

#define RUNS_DIR "runs"

#endif
