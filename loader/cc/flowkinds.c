// SPDX-License-Identifier: GPL-2.0-only
/* What has records in the map `flows`: see flowkinds.h. */
#include <string.h>

#include "cc/flowkinds.h"
#include "ccbpf/controllers.h"

const struct flow_kind flow_kinds[] = {
#define X(number, name, ...) { number, #name },
	CCBPF_CONTROLLERS(X) CCBPF_RECEIVERS(X)
#undef X
};
const unsigned int n_flow_kinds = sizeof(flow_kinds) / sizeof(flow_kinds[0]);

const struct flow_kind *flow_kind_find(const char *name)
{
	for_each_flow_kind(k) if (strcmp(k->name, name) == 0) return k;
	return NULL;
}

const struct flow_kind *flow_kind_of(uint32_t kind)
{
	for_each_flow_kind(k) if (k->kind == kind) return k;
	return NULL;
}
