/* SPDX-License-Identifier: GPL-2.0-only */
/* The runs, for `ccbpf status`. */
#ifndef CCBPF_RUNS_H
#define CCBPF_RUNS_H

#include <json-c/json.h>

/* An array of all runs. Needs a lock. */
struct json_object *runs_json(void);

/* A table of them; nothing where there are none. Needs a lock. */
void runs_print(void);

#endif
