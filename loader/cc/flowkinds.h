/* SPDX-License-Identifier: GPL-2.0-only */
/* What has records in the map `flows`: the controllers, and what holds back receive windows. */
#ifndef CCBPF_FLOWKINDS_H
#define CCBPF_FLOWKINDS_H

#include <stdint.h>

struct flow_kind {
	uint32_t kind; /* enum ccbpf_kind */
	const char *name;
};

extern const struct flow_kind flow_kinds[];
extern const unsigned int n_flow_kinds;

#define for_each_flow_kind(k) \
	for (const struct flow_kind *k = flow_kinds; k < flow_kinds + n_flow_kinds; k++)

/* The one of that name, or of that number; NULL where there is none. */
const struct flow_kind *flow_kind_find(const char *name);
const struct flow_kind *flow_kind_of(uint32_t kind);

#endif
