/* SPDX-License-Identifier: GPL-2.0-only */
/* What `ccbpf aqm show` says of a queue: tables for a person, JSON. */
#ifndef CCBPF_AQMTEXT_H
#define CCBPF_AQMTEXT_H

#include "aqm/aqm.h"
#include "aqm/config.h"

/* All about one that is attached. */
struct aqm_view {
	const struct tchook *aqm;
	struct ccbpf_aqm_config config;
	struct ccbpf_aqm_state state;
	struct ccbpf_aqm_counts counts;
	char device[CCBPF_AQM_NAME_LEN]; /* now, or when it was attached */
	bool here; /* in our namespace: `queue` can be seen */
	struct aqm_queue queue;
	bool unseen; /* the device sends, and nf_red sees no packet */
	uint32_t packet_bytes; /* of the device now; seen with the queue */
};

/* "average over 64 packets" */
const char *aqm_weight(const struct ccbpf_aqm_config *config);

void aqm_print(const struct aqm_view *view);
struct json_object *aqm_json(const struct aqm_view *view);

#endif
