/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `ccbpf renice --download` has moved: the program bpf/rx_moved.bpf.c at the root cgroup, held
 * by the pin <root>/renice/link. Which connections these are is in the storage of their sockets.
 * It is there before the first one is moved, and goes when none is left: so a kill at any instant
 * leaves connections that are held by a program, or are not held.
 */
#ifndef CCBPF_MOVED_H
#define CCBPF_MOVED_H

#include <json-c/json.h>
#include <stdbool.h>

#define MOVED_DIR "renice"

/* Its maps, to be closed by moved_close(). */
struct moved {
	int receives_fd; /* -1: there is no program */
	int flows_fd;
};

#define MOVED_NONE { .receives_fd = -1, .flows_fd = -1 }

/* Open it. Returns 0 also where there is none, or -errno; needs a lock. */
int moved_open(struct moved *out);

/* The same; where there is none, or it is detached, make it. Needs the lock for a change. Returns
 * EXIT_OK, or the exit code after saying what failed. */
int moved_make(const char *what, struct moved *out);

void moved_close(struct moved *moved);

/* Whether it is pinned. */
bool moved_is_pinned(void);

/* Whether it was about to go: moved_release(). */
bool moved_is_going(void);

/* Let go of all that it holds: their windows are open. Takes a moment where a socket is in a network
 * namespace that cannot be found. Needs the lock for a change. */
void moved_release(const char *what);

/* Whether it holds a socket, or may. Needs a lock. */
bool moved_holds(void);

/* Remove it; `removed`: an array that gets its path, or NULL. Returns EXIT_OK or the exit code. */
int moved_remove(const char *what, struct json_object *removed);

/* Add what lies below <root>/renice and is not ours. */
void moved_collect_foreign(struct json_object *foreign);

#endif
