// SPDX-License-Identifier: GPL-2.0-only
/* Attaching nf_red to a device: see attach.h. */
#include <string.h>

#include "aqm/attach.h"
#include "out/errors.h"
#include "sys/objects.h"

/* Write the identity and the configuration into the object. */
static int fill(const char *what, const struct bpf_object *obj, const struct device *device,
		const struct ccbpf_aqm_config *config, struct tchook *aqm)
{
	struct ccbpf_aqm_identity *identity;
	struct bpf_map *maps[AQM_MAPS];
	int err = EXIT_OK;

	for (int i = 0; !err && i < AQM_MAPS; i++)
		err = object_map(what, obj, aqm_maps[i].name, aqm_maps[i].shape.value_size,
				 &maps[i]);
	if (err)
		return err;
	identity = object_initial(maps[AQM_MAP_IDENTITY]);
	tchook_identify(device, identity);
	aqm->identity = *identity;
	memcpy(object_initial(maps[AQM_MAP_CONFIG]), config, sizeof(*config));
	return EXIT_OK;
}

int aqm_attach(const char *what, const struct device *device, const struct ccbpf_aqm_config *config,
	       struct tchook *aqm)
{
	struct bpf_object *obj = NULL;
	int err = tchook_require(what, device);

	*aqm = tchook_of(&aqm_kind, device->netns, device->ifindex);
	if (!err)
		err = object_open(what, AQM_PROGRAM, ccbpf_object_nf_red, ccbpf_object_nf_red_end,
				  &obj);
	if (!err)
		err = fill(what, obj, device, config, aqm);
	if (!err)
		err = object_load(what, obj);
	if (!err) {
		err = tchook_hold(what, obj, device, aqm);
		if (err)
			tchook_remove(what, aqm);
	}
	bpf_object__close(obj);
	return err;
}
