/* SPDX-License-Identifier: GPL-2.0-only */
/* The runs, for `ccbpf status`. */
#ifndef CCBPF_RUNS_H
#define CCBPF_RUNS_H

#include <json-c/json.h>

#include "cc/flows.h"
#include "rules/origins.h"

/* An array of all runs; `flows`: the live ones, which say what open connections have sent. Needs a lock. */
struct json_object *runs_json(const struct origins *origins, const struct flow *flows,
			      size_t n_flows);

/* A table of them; nothing where there are none. Needs a lock. */
void runs_print(const struct origins *origins, const struct flow *flows, size_t n_flows);

#endif
