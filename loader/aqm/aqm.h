/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nf_red on a device: a tc program at its egress (sys/tchook.h), with the maps
 *
 *   <root>/aqm/<netns>_<ifindex>/identity config state counts
 */
#ifndef CCBPF_AQM_LOADER_H
#define CCBPF_AQM_LOADER_H

#include "ccbpf/aqm.h"
#include "sys/tchook.h"

#define AQM_DIR "aqm" /* in the pin directory */
#define AQM_PROGRAM "nf_red"

enum aqm_map {
	AQM_MAP_IDENTITY,
	AQM_MAP_CONFIG,
	AQM_MAP_STATE,
	AQM_MAP_COUNTS,
	AQM_MAPS
};
extern const struct attachment_map aqm_maps[AQM_MAPS];

extern const struct tchook_kind aqm_kind;

/* Read and write the maps. Return EXIT_OK or the exit code. */
int aqm_read_config(const char *what, const struct tchook *aqm, struct ccbpf_aqm_config *out);
int aqm_write_config(const char *what, const struct tchook *aqm,
		     const struct ccbpf_aqm_config *config);
int aqm_read_state(const char *what, const struct tchook *aqm, struct ccbpf_aqm_state *out);
int aqm_read_counts(const char *what, const struct tchook *aqm, struct ccbpf_aqm_counts *out);

#endif
