/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Our programs, unmodified, built for the host: build/sim/<name>.so from bpf/<name>.bpf.c and stub/. This file does for them
 * what the kernel does: loading, maps, helpers.
 */
#ifndef CCBPF_SIM_PROGRAMS_H
#define CCBPF_SIM_PROGRAMS_H

#include "ccbpf/aqm.h"
#include "flow.h"

/* A controller of that name, ours or a peer; exits with the reason where there is none. */
const struct controller *program_find(const char *directory, const char *name);

/* Writes one parameter of a loaded controller: its place in the controller's table. */
void program_set(const char *name, unsigned int place, u32 value);

/* nf_red before a queue. */
void program_queue(const char *directory, struct queue *q, const struct ccbpf_aqm_config *config);

/* Events of all flows as lines of JSON; NULL: none. */
void program_trace(const char *path);

/* The record that a program would keep in the map `flows`, NULL without program_records(true). */
void program_records(bool on);
const struct ccbpf_flow *program_record(struct flow *f);

void program_seed(u64 seed);

#endif
