/* SPDX-License-Identifier: GPL-2.0-only */
/* The standing rules, for `ccbpf assign list` and `ccbpf status`. */
#ifndef CCBPF_CMD_RULES_H
#define CCBPF_CMD_RULES_H

#include <json-c/json.h>
#include <stdbool.h>

#include "ccbpf/rule.h"

/* An array of all rules, in the order in which they win. Needs a lock. Returns EXIT_OK or the exit code. */
int rules_json(const char *what, struct json_object **list);

/* A table of them; where there are none, a line if `none` says so. Needs a lock. */
int rules_print(const char *what, bool none);

/* Why no connection has the controller of --from now, or NULL. */
const char *rules_absent(const struct ccbpf_rule *rule);

#endif
