/* SPDX-License-Identifier: GPL-2.0-only */
/* Removing what is of no use below <root>/aqm, for `ccbpf clean`. */
#ifndef CCBPF_AQM_SWEEP_H
#define CCBPF_AQM_SWEEP_H

#include <json-c/json.h>
#include <stdbool.h>

/*
 * For `ccbpf clean`: remove what is of no use; `all`: also what is attached, or
 * unreadable. `removed`: an array that gets the paths.
 */
int aqm_sweep(const char *what, bool all, struct json_object *removed);

/* Put what lies in the directory and is not ours behind `foreign`. */
void aqm_collect_foreign(struct json_object *foreign);

#endif
