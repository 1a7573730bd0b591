/* SPDX-License-Identifier: GPL-2.0-only */
/* The two programs of a gateway, and their maps: only for this room. */
#ifndef CCBPF_GATEWAY_KINDS_H
#define CCBPF_GATEWAY_KINDS_H

#include "sys/tchook.h"

enum gateway_map {
	GATEWAY_MAP_IDENTITY,
	GATEWAY_MAP_CONFIG,
	GATEWAY_MAP_COUNTS,
	GATEWAY_MAP_CONNECTIONS,
	GATEWAY_MAPS
};
extern const struct attachment_map gateway_maps[GATEWAY_MAPS];

extern const struct tchook_kind gateway_kind_in, gateway_kind_out;

#endif
