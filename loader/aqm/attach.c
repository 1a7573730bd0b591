// SPDX-License-Identifier: GPL-2.0-only
/* Attaching nf_red to a device and taking it away: see attach.h. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm/attach.h"
#include "out/errors.h"
#include "sys/kernel.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "sys/qdisc.h"
#include "util/clock.h"
#include "util/memory.h"
#include "util/text.h"

/* include/uapi/linux/bpf.h of 6.6: the headers here may be older */
#define LINK_TYPE_TCX 11
#define ATTACH_TCX_EGRESS 47
#define TCX_BEFORE (1u << 3) /* BPF_F_BEFORE: first of all */

/*
 * Our filter: before those that are there, or where there are none with this
 * priority. It is ours if it holds our program, so none of this need be remembered.
 */
#define FILTER_HANDLE 1
#define FILTER_PRIORITY 0xcb
#define FILTER_TRIES 16

#define PROGRAM "nf_red"

/* The one that an attachment is part of. */
static const struct aqm *aqm_with(const struct attachment *a)
{
	return (const struct aqm *)((const char *)a - offsetof(struct aqm, attachment));
}

static enum attachment_state state_of_link(const struct aqm *aqm, const struct bpf_link_info *link)
{
	if (aqm_is_here(aqm) && !device_name(aqm->identity.ifindex))
		return ATTACHMENT_GONE; /* a link goes with a device that is moved */
	if (link->xdp.ifindex == aqm->identity.ifindex) /* tcx's is there too */
		return ATTACHMENT_HELD;
	return aqm_is_here(aqm) ? ATTACHMENT_DETACHED : ATTACHMENT_GONE;
}

/* The hook and our filter's place. */
#define FILTER(hook, opts, aqm, at)                                        \
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (aqm)->identity.ifindex, \
		    .attach_point = BPF_TC_EGRESS);                        \
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = (at))

/* The priority where our filter is, or 0. */
static uint32_t find_filter(const struct aqm *aqm)
{
	return filter_priority(aqm->identity.ifindex, aqm->attachment.held_id);
}

/* The priority for a new one: what is before us may end a packet's way through the
 * filters (TC_ACT_OK), and then we never see it. */
static uint32_t first_priority(const struct aqm *aqm)
{
	uint32_t first = filter_priority(aqm->identity.ifindex, 0);

	if (!first)
		return FILTER_PRIORITY;
	return first > 1 ? first - 1 : first; /* 1: behind it, and `show` tells */
}

static enum attachment_state state_of_filter(const struct aqm *aqm)
{
	if (!aqm_is_here(aqm))
		return ATTACHMENT_HELD; /* where we cannot look */
	if (!device_name(aqm->identity.ifindex))
		return ATTACHMENT_GONE;
	return find_filter(aqm) ? ATTACHMENT_HELD : ATTACHMENT_DETACHED;
}

static int read_hook(struct attachment *a, const struct bpf_link_info *link)
{
	a->state = link ? state_of_link(aqm_with(a), link) : state_of_filter(aqm_with(a));
	return 0;
}

/* Whether the device has a clsact. */
static bool has_clsact(uint32_t ifindex)
{
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	bool has = qdiscs_read(ifindex, all) || all->clsact;

	free(all);
	return has;
}

/* The qdisc `ingress` takes a filter for egress, and runs it at ingress. */
static int refuse_ingress(const char *what, const struct device *device)
{
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	int unread = qdiscs_read(device->ifindex, all);
	bool has = all->ingress;

	free(all);
	if (unread)
		return fail_errno(what, device->name, unread);
	if (!has)
		return EXIT_OK;
	return FAIL(
		EXIT_FAILED, .what = what, .on = device->name,
		.why = "it has the qdisc `ingress`, with which filters have no place at egress",
		.remedy = text(
			"put clsact there instead, which has both: `tc qdisc del dev %s ingress`, `tc qdisc add dev %s clsact`, and its filters again",
			device->name, device->name));
}

static int attach_link(const char *what, const struct device *device, struct aqm *aqm,
		       int program_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = TCX_BEFORE);
	int fd = bpf_link_create(program_fd, device->ifindex, ATTACH_TCX_EGRESS, &opts);

	return fd < 0 ? fail_errno(what, device->name, errno)
		      : attachment_pin_hold(what, &aqm->attachment, fd, true);
}

static int attach_filter(const char *what, const struct device *device, struct aqm *aqm,
			 int program_fd)
{
	int err = attachment_pin_hold(what, &aqm->attachment, dup(program_fd), false);
	uint32_t first = first_priority(aqm);

	if (err)
		return err;
	for (int i = 0; i < FILTER_TRIES; i++) {
		FILTER(hook, opts, aqm, first + i);

		err = bpf_tc_hook_create(&hook);
		if (err && err != -EEXIST)
			break;
		opts.prog_fd = program_fd;
		err = bpf_tc_attach(&hook, &opts);
		if (err != -EEXIST && err != -EINVAL)
			break; /* else somebody has this priority */
	}
	aqm->attachment.state = ATTACHMENT_HELD;
	return err ? fail_errno(what, device->name, err) : EXIT_OK;
}

/* The clsact that we made goes when nobody else uses it. */
static void remove_clsact(const struct aqm *aqm)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = aqm->identity.ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	if (aqm->identity.made_clsact && has_clsact(hook.ifindex) &&
	    filters_count(hook.ifindex) == 0)
		bpf_tc_hook_destroy(&hook);
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
			attachment_path(&aqm->attachment, NULL)));
}

/* A filter stays without its pin. */
static int remove_filter(const char *what, const struct attachment *a)
{
	const struct aqm *aqm = aqm_with(a);
	bool filter = !a->by_link && a->held_id;
	uint32_t at;
	int err = 0;

	if (!aqm_is_here(aqm))
		return filter ? not_here(what, aqm) : EXIT_OK;
	at = filter ? find_filter(aqm) : 0;
	if (at) {
		FILTER(hook, opts, aqm, at);

		err = bpf_tc_detach(&hook, &opts);
		if (err)
			return fail_errno(what, aqm->identity.device, err);
	}
	remove_clsact(aqm);
	return EXIT_OK;
}

const struct attachment_kind aqm_attachment = {
	.n_maps = AQM_MAPS,
	.abi = CCBPF_AQM_ABI,
	.link_type = LINK_TYPE_TCX,
	.instead = "program",
	.instead_kind = PIN_KIND_PROGRAM,
	.strict = true,
	.program = PROGRAM,
	.program_type = BPF_PROG_TYPE_SCHED_CLS,
	.read = read_hook,
	.release = remove_filter,
};

/* Write the identity and the configuration into the object. */
static int fill(const char *what, const struct bpf_object *obj, const struct device *device,
		const struct ccbpf_aqm_config *config, struct aqm *aqm)
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
	identity->netns = device->netns;
	identity->ifindex = device->ifindex;
	identity->instance = monotonic_ns();
	identity->made_clsact = !kernel_has_tcx() && !has_clsact(device->ifindex);
	snprintf(identity->device, sizeof(identity->device), "%s", device->name);
	snprintf(identity->version, sizeof(identity->version), "%s", CCBPF_VERSION);
	aqm->identity = *identity;
	memcpy(object_initial(maps[AQM_MAP_CONFIG]), config, sizeof(*config));
	return EXIT_OK;
}

/* Pin the maps and attach it. */
static int hold(const char *what, const struct bpf_object *obj, const struct device *device,
		struct aqm *aqm)
{
	int fd = bpf_program__fd(bpf_object__find_program_by_name(obj, PROGRAM));
	int err = pin_make_dir(what, pin_path(AQM_DIR, NULL));

	if (!err)
		err = attachment_pin_maps(what, &aqm->attachment, obj);
	if (err)
		return err;
	return kernel_has_tcx() ? attach_link(what, device, aqm, fd)
				: attach_filter(what, device, aqm, fd);
}

int aqm_attach(const char *what, const struct device *device, const struct ccbpf_aqm_config *config,
	       struct aqm *aqm)
{
	struct bpf_object *obj = NULL;
	int err = kernel_has_tcx() ? EXIT_OK : refuse_ingress(what, device);

	*aqm = aqm_of(device->netns, device->ifindex);
	if (!err)
		err = object_open(what, PROGRAM, ccbpf_object_nf_red, ccbpf_object_nf_red_end,
				  &obj);
	if (!err)
		err = fill(what, obj, device, config, aqm);
	if (!err)
		err = object_load(what, obj);
	if (!err) {
		err = hold(what, obj, device, aqm);
		if (err)
			aqm_remove(what, aqm);
	}
	bpf_object__close(obj);
	return err;
}

int aqm_remove(const char *what, struct aqm *aqm)
{
	int err = attachment_remove(what, &aqm->attachment);

	if (!err)
		rmdir(pin_path(AQM_DIR, NULL)); /* refused unless empty */
	return err;
}
