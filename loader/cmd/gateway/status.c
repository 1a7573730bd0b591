// SPDX-License-Identifier: GPL-2.0-only
/* The gateways, for `ccbpf status`: see verbs.h. */
#include <stdlib.h>

#include "cmd/gateway/verbs.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/netns.h"

void gateways_print(void)
{
	struct gateway_name *gateways;
	unsigned int n = gateway_names(&gateways);

	for (unsigned int i = 0; i < n; i++)
		output_line("gateway: %s%s (`ccbpf gateway show`)", gateways[i].device,
			    netns_place(gateways[i].netns));
	free(gateways);
}

struct json_object *gateways_json(void)
{
	struct json_object *list = json_object_new_array();
	struct gateway_name *gateways;
	unsigned int n = gateway_names(&gateways);

	for (unsigned int i = 0; i < n; i++)
		json_object_array_add(list, json_text(gateways[i].device));
	free(gateways);
	return list;
}
