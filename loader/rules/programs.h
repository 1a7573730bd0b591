/* SPDX-License-Identifier: GPL-2.0-only */
/* The programs of a run: one for each direction that is in the background. */
#ifndef CCBPF_RULES_PROGRAMS_H
#define CCBPF_RULES_PROGRAMS_H

#include "rules/run.h"

#define PIN_RECEIVE "receive" /* the link of bpf/rx_le.bpf.c; that of bpf/run.bpf.c is PIN_LINK */
#define PIN_RUN "run"
#define PIN_COUNTS "counts"

/*
 * Load them, pin in the directory `dir` what says what the run is, make its cgroup, attach them
 * to it. The maps that they share with others are pinned where they are not yet. Returns EXIT_OK, or
 * the exit code after saying what failed: what is pinned in `dir` by then is removed with the run.
 */
int programs_begin(const char *what, struct run *run, const char *dir);

/* Does this kernel have what the program for what is received reads? */
bool programs_can_receive(void);

/* What of this network namespace's settings keeps downloads out of the background, with its remedy; NULL: nothing. */
const char *programs_receive_hindered(const char **remedy);

/* The id of the cgroup that one of them is at, by the pins in `dir`, or 0. The kernel takes a
 * program from a removed cgroup a moment later. */
uint64_t programs_attached(const char *dir);

/* Before they go: open the receive windows of connections that go on. `about`: what the run is; NULL:
 * another version of ccbpf made it. */
void programs_open_windows(const char *what, const char *dir, const struct ccbpf_run *about);

#endif
