/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `ccbpf top` shall know of the processes that hold flows, and of the rules, runs and units
 * that gave flows their controller.
 */
#ifndef CCBPF_CMD_OWNERS_H
#define CCBPF_CMD_OWNERS_H

#include <stdbool.h>

#include "rules/origins.h"
#include "sys/held.h"
#include "top/owners.h"

/* What was last read of them. */
struct known {
	struct held held;
	struct origins origins;
	bool read; /* the origins */
};

struct owner_source owner_source(struct known *known);
void known_free(struct known *known);

#endif
