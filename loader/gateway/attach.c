// SPDX-License-Identifier: GPL-2.0-only
/* Attaching a gateway to a device and taking it away: see gateway.h. */
#include <stdlib.h>
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/kinds.h"
#include "out/errors.h"
#include "sys/objects.h"
#include "sys/shared.h"

/* The lowest that no other one has. */
static uint32_t free_id(void)
{
	struct gateway_name *names;
	unsigned int n = gateway_names(&names);
	uint32_t id = 1;

	for (unsigned int i = 0; i < n; i++)
		if (names[i].instance == gateway_instance(id)) {
			id++;
			i = -1; /* from the first one again */
		}
	free(names);
	return id;
}

/* Write the identity and the configuration into the object. */
static int fill(const char *what, const struct bpf_object *obj, const struct device *device,
		const struct ccbpf_gateway_config *config, struct gateway *gateway)
{
	struct ccbpf_gateway_config *to;
	struct bpf_map *maps[GATEWAY_MAPS];
	int err = EXIT_OK;

	for (int i = 0; !err && i < GATEWAY_MAPS; i++)
		err = object_map(what, obj, gateway_maps[i].name, gateway_maps[i].shape.value_size,
				 &maps[i]);
	if (err)
		return err;
	tchook_identify(device, object_initial(maps[GATEWAY_MAP_IDENTITY]));
	memcpy(&gateway->in.identity, object_initial(maps[GATEWAY_MAP_IDENTITY]),
	       sizeof(gateway->in.identity));
	gateway->out.identity = gateway->in.identity;
	to = object_initial(maps[GATEWAY_MAP_CONFIG]);
	*to = *config;
	to->id = free_id();
	return EXIT_OK;
}

static int hold(const char *what, struct bpf_object *obj, const struct device *device,
		struct gateway *gateway)
{
	int err = tchook_hold(what, obj, device, &gateway->in);

	if (!err)
		err = tchook_hold(what, obj, device, &gateway->out);
	if (err)
		gateway_remove(what, gateway);
	return err;
}

int gateway_attach(const char *what, const struct device *device,
		   const struct ccbpf_gateway_config *config, struct gateway *out)
{
	struct bpf_object *obj = NULL;
	int err = tchook_require(what, device);

	out->in = tchook_of(&gateway_kind_in, device->netns, device->ifindex);
	out->out = tchook_of(&gateway_kind_out, device->netns, device->ifindex);
	if (!err)
		err = object_open(what, "gateway", ccbpf_object_gateway, ccbpf_object_gateway_end,
				  &obj);
	if (!err)
		err = fill(what, obj, device, config, out);
	if (!err)
		err = shared_load(what, obj);
	if (!err)
		err = hold(what, obj, device, out);
	bpf_object__close(obj);
	return err;
}

int gateway_remove(const char *what, struct gateway *gateway)
{
	int err = tchook_remove(what, &gateway->out);

	return err ?: tchook_remove(what, &gateway->in);
}
