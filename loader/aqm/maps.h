/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The maps of an attached nf_red, and their pins.
 *
 *   X(id, pin, name): the pin in its directory, the map's name in the object
 */
#ifndef CCBPF_AQM_MAPS_H
#define CCBPF_AQM_MAPS_H

#include <bpf/bpf.h>

#include "aqm/aqm.h"

#define AQM_PIN_IDENTITY "identity"
#define AQM_MAP_TABLE(X)                                  \
	X(IDENTITY, AQM_PIN_IDENTITY, ".rodata.identity") \
	X(CONFIG, "config", ".data.config")               \
	X(STATE, "state", ".data.state")                  \
	X(COUNTS, "counts", "counts")

enum aqm_map {
#define X(id, pin, name) AQM_MAP_##id,
	AQM_MAP_TABLE(X)
#undef X
	AQM_MAPS
};

struct aqm_map_names {
	const char *pin, *name;
};
extern const struct aqm_map_names aqm_maps[AQM_MAPS];

/* Read a map of one value. Returns 0 or -errno. */
int aqm_read_map(const struct aqm *aqm, enum aqm_map map, enum bpf_map_type type,
		 uint32_t value_size, void *out);

/* Read and write the maps. Return EXIT_OK or the exit code. */
int aqm_read_config(const char *what, const struct aqm *aqm, struct ccbpf_aqm_config *out);
int aqm_write_config(const char *what, const struct aqm *aqm,
		     const struct ccbpf_aqm_config *config);
int aqm_read_state(const char *what, const struct aqm *aqm, struct ccbpf_aqm_state *out);
int aqm_read_counts(const char *what, const struct aqm *aqm, struct ccbpf_aqm_counts *out);

#endif
