/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nf_red on a device, as its pins tell (sys/attachment.h, strict):
 *
 *   <root>/aqm/<netns>_<ifindex>/identity config state counts
 *   <root>/aqm/<netns>_<ifindex>/link      TCX (6.6): the attachment itself
 *   <root>/aqm/<netns>_<ifindex>/program   instead of it, where there is no
 *                                          TCX: a filter at the device's clsact
 *                                          holds this program, whoever made the
 *                                          clsact
 *
 * <netns> is the inode of the device's network namespace.
 */
#ifndef CCBPF_AQM_LOADER_H
#define CCBPF_AQM_LOADER_H

#include <json-c/json.h>

#include "ccbpf/aqm.h"
#include "sys/attachment.h"
#include "sys/device.h"

#define AQM_DIR "aqm" /* in the pin directory */

enum aqm_map {
	AQM_MAP_IDENTITY,
	AQM_MAP_CONFIG,
	AQM_MAP_STATE,
	AQM_MAP_COUNTS,
	AQM_MAPS
};
extern const struct attachment_map aqm_maps[AQM_MAPS];

struct aqm {
	struct attachment attachment; /* it holds the program */
	/* The device as the directory's name says; the rest is zero where it is not readable. */
	struct ccbpf_aqm_identity identity;
};

/* Of a device, before its pins are read. */
struct aqm aqm_of(uint32_t netns, uint32_t ifindex);

/* Open what is pinned for a device. Returns EXIT_OK or the exit code. */
int aqm_open(const char *what, uint32_t netns, uint32_t ifindex, struct aqm *out);

/* Whether it is attached. */
bool aqm_is_attached(const struct aqm *aqm);

/* Whether its device is, or was, in the network namespace of this process. */
bool aqm_is_here(const struct aqm *aqm);

/*
 * Open all that are pinned, in no order; the caller closes and frees them. What
 * has no name of ours is left out, and what cannot be opened, after saying why.
 * Returns EXIT_OK or the exit code.
 */
int aqm_open_all(const char *what, struct aqm **out, unsigned int *n);

/* Its state in words. */
const char *aqm_state_text(const struct aqm *aqm);

/* Read and write the maps. Return EXIT_OK or the exit code. */
int aqm_read_config(const char *what, const struct aqm *aqm, struct ccbpf_aqm_config *out);
int aqm_write_config(const char *what, const struct aqm *aqm,
		     const struct ccbpf_aqm_config *config);
int aqm_read_state(const char *what, const struct aqm *aqm, struct ccbpf_aqm_state *out);
int aqm_read_counts(const char *what, const struct aqm *aqm, struct ccbpf_aqm_counts *out);

/* attachment_sweep() and attachment_foreign() of all that lies below <root>/aqm. */
int aqm_sweep(const char *what, bool all, struct json_object *removed);
void aqm_foreign(struct json_object *foreign);

#endif
