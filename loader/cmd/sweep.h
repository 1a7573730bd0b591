/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Removing what is of no use any more in the pin directory, and never anything
 * that is not ours.
 */
#ifndef CCBPF_SWEEP_H
#define CCBPF_SWEEP_H

#include <json-c/json.h>

enum sweep_extent {
	SWEEP_RESTS, /* what interrupted commands left of controllers and queues */
	SWEEP_UNUSED, /* and the shared maps, once no controller is enabled and
			 no flow is left in them */
	SWEEP_ALL, /* and what is enabled, attached or unreadable, and the shared
		      maps even if flows are left (these finish unseen) */
};

/*
 * Remove what is of no use, up to the directory itself once it is empty. Needs
 * the lock for a change. While `ccbpf trace` runs, or there is a rule, or a run or a unit is for
 * downloads, or `renice` holds one, or a device has a gateway, the shared maps stay.
 * `removed`: an array that gets what was removed, or NULL. What cannot be
 * removed does not keep the rest. Returns EXIT_OK or the first exit code.
 */
int sweep(const char *what, enum sweep_extent extent, struct json_object *removed);

/* An array of the paths in the pin directory that are not ours. */
struct json_object *sweep_foreign(void);

/* Say on stderr which foreign entries were left. */
void sweep_note_foreign(void);

#endif
