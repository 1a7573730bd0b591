// SPDX-License-Identifier: GPL-2.0-only
/* Attaching nf_red to a device and taking it away: see attach.h. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "aqm/attach.h"
#include "aqm/hook.h"
#include "aqm/maps.h"
#include "out/errors.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "util/clock.h"
#include "util/text.h"

int aqm_require(const char *what)
{
	return kernel_require_bpf(what);
}

static int bad_object(const char *what, enum aqm_map map)
{
	return FAIL(EXIT_FAILED, .what = what, .on = AQM_PROGRAM,
		    .why = text("its object has no map `%s` of this version's layout",
				aqm_maps[map].name),
		    .remedy =
			    "rebuild ccbpf: the object and the command must be of the same build");
}

/* What a data map begins with; NULL where it has another size. */
static void *initial(struct bpf_object *obj, enum aqm_map which, size_t size)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, aqm_maps[which].name);
	size_t its = 0;
	void *value = map ? bpf_map__initial_value(map, &its) : NULL;

	return its == size ? value : NULL;
}

static int fill(const char *what, struct bpf_object *obj, const struct device *device,
		const struct ccbpf_aqm_config *config, struct aqm *aqm)
{
	struct ccbpf_aqm_identity *identity = initial(obj, AQM_MAP_IDENTITY, sizeof(*identity));
	struct ccbpf_aqm_config *its = initial(obj, AQM_MAP_CONFIG, sizeof(*its));

	if (!identity || !its)
		return bad_object(what, identity ? AQM_MAP_CONFIG : AQM_MAP_IDENTITY);
	identity->netns = device->netns;
	identity->ifindex = device->ifindex;
	identity->instance = monotonic_ns();
	identity->made_clsact = aqm->by_filter && !hook_has_clsact(device->ifindex);
	snprintf(identity->device, sizeof(identity->device), "%s", device->name);
	snprintf(identity->version, sizeof(identity->version), "%s", CCBPF_VERSION);
	aqm->identity = *identity;
	*its = *config;
	return EXIT_OK;
}

static int load(const char *what, struct bpf_object *obj)
{
	int err = bpf_object__load(obj);

	return err ? fail_load(what, AQM_PROGRAM, err) : EXIT_OK;
}

static int pin_maps(const char *what, struct bpf_object *obj, const struct aqm *aqm)
{
	int err = pin_make_dir(what, pin_path(AQM_DIR, NULL));

	if (!err)
		err = pin_make_dir(what, pin_path(aqm->dir, NULL));
	for (size_t i = 0; !err && i < AQM_MAPS; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, aqm_maps[i].name);

		err = map ? pin_make(what, bpf_map__fd(map), pin_path(aqm->dir, aqm_maps[i].pin))
			  : bad_object(what, i);
	}
	return err;
}

int aqm_attach(const char *what, const struct device *device, const struct ccbpf_aqm_config *config,
	       struct aqm *aqm)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = AQM_PROGRAM,
		    .kernel_log_level = output.verbose > 1 ? 1 : 0);
	struct bpf_object *obj;
	int err, fd;

	aqm->by_filter = !kernel_has_tcx();
	err = aqm->by_filter ? hook_refuse_ingress(what, device) : EXIT_OK;
	if (err)
		return err;
	obj = bpf_object__open_mem(ccbpf_object_nf_red,
				   ccbpf_object_nf_red_end - ccbpf_object_nf_red, &opts);
	if (!obj)
		return fail_errno(what, AQM_PROGRAM, errno);
	err = fill(what, obj, device, config, aqm);
	if (!err)
		err = load(what, obj);
	if (err)
		goto out;
	err = pin_maps(what, obj, aqm);
	fd = bpf_program__fd(bpf_object__find_program_by_name(obj, AQM_PROGRAM));
	if (!err && aqm->by_filter)
		err = hook_attach_filter(what, device, aqm, fd);
	else if (!err)
		err = hook_attach_link(what, device, aqm, fd);
	if (err)
		aqm_remove(what, aqm);
out:
	bpf_object__close(obj);
	return err;
}

static int not_here(const char *what, const struct aqm *aqm)
{
	return FAIL(
		EXIT_FAILED, .what = what, .on = aqm->identity.device,
		.why = text(
			"its filter is in network namespace %u, which cannot be reached from here",
			aqm->identity.netns),
		.remedy = text(
			"run the command there: `ip netns exec NAME ccbpf aqm detach ...`, or, if that namespace is no more, `rm -r %s`",
			pin_path(aqm->dir, NULL)));
}

int aqm_remove(const char *what, struct aqm *aqm)
{
	static const char *const holds[] = { AQM_PIN_LINK, AQM_PIN_PROGRAM };
	bool here = aqm->identity.netns == device_netns();
	int err = 0;

	if (aqm->elsewhere)
		return not_here(what, aqm);
	if (here && aqm->by_filter && aqm->program_id)
		err = hook_remove_filter(what, aqm);
	else if (here && aqm->identity.made_clsact)
		hook_remove_clsact(aqm);
	if (err)
		return err;
	for (size_t i = 0; !err && i < 2; i++)
		err = pin_remove(pin_path(aqm->dir, holds[i]));
	for (size_t i = AQM_MAPS; !err && i-- > 0;) /* the identity last */
		err = pin_remove(pin_path(aqm->dir, aqm_maps[i].pin));
	if (!err)
		err = pin_remove_dir(pin_path(aqm->dir, NULL));
	if (err)
		return fail_errno(what, pin_path(aqm->dir, NULL), err);
	rmdir(pin_path(AQM_DIR, NULL)); /* refused unless empty */
	return EXIT_OK;
}
