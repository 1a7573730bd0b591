/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The receive windows that a program of ours holds, of a run, of the rules, of a unit or of `ccbpf renice
 * --download`, open before the program goes: by bpf/rx_open.bpf.c, in all network namespaces that
 * are found, at once. After it whoever removes the program removes its pin: so when killed
 * between, the next command opens what is left.
 *
 * What is not found opens with its next segment, if the program was told so, as long as it is there:
 * windows_wait().
 */
#ifndef CCBPF_RULES_WINDOWS_H
#define CCBPF_RULES_WINDOWS_H

#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdint.h>

#include "ccbpf/rule.h"

/* Those of one program, to be closed by windows_close(). */
struct windows {
	int receives_fd; /* negative: it holds none */
	int flows_fd; /* negative: its records are of another layout */
	bool foreign; /* another version of ccbpf made it */
};

struct windows windows_of(int program_fd, bool foreign);

/* Those of the program behind a pinned link; none if it is not there. */
struct windows windows_at(const char *link, bool foreign);

void windows_close(struct windows *windows);

/* Whether what the map `receives_fd` remembers has the layout of this version, that of `obj`. */
bool windows_same_layout(int receives_fd, const struct bpf_object *obj);

/* Whether one has a record of this instance (CCBPF_RECEIVED_BY_..., or a run's), or may have. */
bool windows_are_held(const struct windows *windows, uint64_t instance);

/* Open them, and let go of their sockets; `rules`: but those of these stay; NULL: all. Silent: where
 * the kernel has no such iterator none opens. */
void windows_open(const struct windows *windows, const struct ccbpf_rule *rules, unsigned int n);

/* Where some are held still, give them a moment to open with their next segment. Says how many are
 * held then. */
void windows_wait(const char *what, const struct windows *windows, uint64_t instance);

#endif
