/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The controllers that this ccbpf carries, as tables: all that the loader knows
 * of an algorithm.
 */
#ifndef CCBPF_LOADER_CONTROLLERS_H
#define CCBPF_LOADER_CONTROLLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ccbpf/controllers.h"
#include "ccbpf/params.h"
#include "sys/attachment.h"

/* One row of include/ccbpf/params.h; every value lies in [min, max]. */
struct param {
	const char *name, *unit;
	uint32_t min, max, def;
	const char *source, *text;
};

/* What is pinned of each. */
enum controller_map {
	CONTROLLER_IDENTITY,
	CONTROLLER_PARAMS,
	CONTROLLER_MAPS
};
#define PIN_PARAMS "params"

struct controller {
	enum ccbpf_kind kind;
	const char *name;
	bool open; /* any process may select it */
	const char *title, *source;
	const struct param *params;
	unsigned int n_params;
	const char *object, *object_end; /* the BPF object, embedded: see
					    sys/objects.c */
	struct attachment_map maps[CONTROLLER_MAPS];
};

extern const struct controller controllers[];
extern const unsigned int n_controllers;

#define for_each_controller(c) \
	for (const struct controller *c = controllers; c < controllers + n_controllers; c++)

/* Is its signal a mark, so that it wants ECN to be agreed? */
bool controller_wants_ecn(const struct controller *c);

/* And does it need the echo of each packet's mark, as RFC 3168 has it and AccECN has not? */
bool controller_wants_echo(const struct controller *c);

/* The controller of that name, or NULL. */
const struct controller *controller_find(const char *name);

/* The one that is recommended, and taken where none is named: `le`. */
const struct controller *controller_background(void);

/* The controller of that kind, or NULL. */
const struct controller *controller_of_kind(uint32_t kind);

/* Say that `name` is unknown, with the nearest names. Returns EXIT_USAGE. */
int controller_unknown(const char *what, const char *name);

#endif
