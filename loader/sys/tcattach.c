// SPDX-License-Identifier: GPL-2.0-only
/* A tc program of ours at a device: attaching it and taking it away. See tchook.h. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "sys/qdisc.h"
#include "sys/tchook.h"
#include "util/clock.h"
#include "util/memory.h"
#include "util/text.h"

/* include/uapi/linux/bpf.h of 6.6: the headers here may be older */
#define ATTACH_TCX_INGRESS 46
#define ATTACH_TCX_EGRESS 47
#define TCX_BEFORE (1u << 3) /* BPF_F_BEFORE: first of all */

/*
 * Our filter: before those that are there, or where there are none with this
 * priority. It is ours if it holds our program, so none of this need be remembered.
 */
#define FILTER_HANDLE 1
#define FILTER_PRIORITY 0xcb
#define FILTER_TRIES 16

/* The one that an attachment is part of. */
static const struct tchook *hook_with(const struct attachment *a)
{
	return (const struct tchook *)((const char *)a - offsetof(struct tchook, attachment));
}

static enum attachment_state state_of_link(const struct tchook *hook,
					   const struct bpf_link_info *link)
{
	if (tchook_is_here(hook) && !device_name(hook->identity.ifindex))
		return ATTACHMENT_GONE; /* a link goes with a device that is moved */
	if (link->xdp.ifindex == hook->identity.ifindex) /* tcx's is there too */
		return ATTACHMENT_HELD;
	return tchook_is_here(hook) ? ATTACHMENT_DETACHED : ATTACHMENT_GONE;
}

/* The hook and our filter's place. */
#define FILTER(hook, opts, of, at)                                                         \
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (of)->identity.ifindex,                  \
		    .attach_point = (of)->kind->ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS); \
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = (at))

/* The priority where our filter is, or 0. */
static uint32_t find_filter(const struct tchook *hook)
{
	return filter_priority(hook->identity.ifindex, hook->kind->ingress,
			       hook->attachment.held_id);
}

/* The priority for a new one: what is before us may end a packet's way through the
 * filters (TC_ACT_OK), and then we never see it. */
static uint32_t first_priority(const struct tchook *hook)
{
	uint32_t first = filter_priority(hook->identity.ifindex, hook->kind->ingress, 0);

	if (!first)
		return FILTER_PRIORITY;
	return first > 1 ? first - 1 : first; /* 1: behind it, and `show` tells */
}

static enum attachment_state state_of_filter(const struct tchook *hook)
{
	if (!tchook_is_here(hook))
		return ATTACHMENT_HELD; /* where we cannot look */
	if (!device_name(hook->identity.ifindex))
		return ATTACHMENT_GONE;
	return find_filter(hook) ? ATTACHMENT_HELD : ATTACHMENT_DETACHED;
}

int tchook_read(struct attachment *a, const struct bpf_link_info *link)
{
	a->state = link ? state_of_link(hook_with(a), link) : state_of_filter(hook_with(a));
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
int tchook_require(const char *what, const struct device *device)
{
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	int unread = kernel_has_tcx() ? 0 : qdiscs_read(device->ifindex, all);
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

static int attach_link(const char *what, const struct device *device, struct tchook *hook,
		       int program_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = TCX_BEFORE);
	int fd = bpf_link_create(program_fd, device->ifindex,
				 hook->kind->ingress ? ATTACH_TCX_INGRESS : ATTACH_TCX_EGRESS,
				 &opts);

	return fd < 0 ? fail_errno(what, device->name, errno)
		      : attachment_pin_hold(what, &hook->attachment, fd, true);
}

static int attach_filter(const char *what, const struct device *device, struct tchook *hook,
			 int program_fd)
{
	int err = attachment_pin_hold(what, &hook->attachment, dup(program_fd), false);
	uint32_t first = first_priority(hook);

	if (err)
		return err;
	for (int i = 0; i < FILTER_TRIES; i++) {
		FILTER(at_hook, opts, hook, first + i);

		err = bpf_tc_hook_create(&at_hook);
		if (err && err != -EEXIST)
			break;
		opts.prog_fd = program_fd;
		err = bpf_tc_attach(&at_hook, &opts);
		if (err != -EEXIST && err != -EINVAL)
			break; /* else somebody has this priority */
	}
	hook->attachment.state = ATTACHMENT_HELD;
	return err ? fail_errno(what, device->name, err) : EXIT_OK;
}

/* The clsact that we made goes when nobody else uses it. */
static void remove_clsact(const struct tchook *hook)
{
	LIBBPF_OPTS(bpf_tc_hook, both, .ifindex = hook->identity.ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	if (hook->identity.made_clsact && has_clsact(both.ifindex) &&
	    filters_count(both.ifindex) == 0)
		bpf_tc_hook_destroy(&both);
}

static int not_here(const char *what, const struct tchook *hook)
{
	return FAIL(
		EXIT_FAILED, .what = what, .on = hook->identity.device,
		.why = text(
			"its filter is in network namespace %u, which cannot be reached from here",
			hook->identity.netns),
		.remedy = text(
			"run the command there: `ip netns exec NAME ccbpf %s detach ...`, or, if that namespace is no more, `rm -r %s`",
			hook->kind->command, attachment_path(&hook->attachment, NULL)));
}

/* A filter stays without its pin. */
int tchook_release(const char *what, const struct attachment *a)
{
	const struct tchook *hook = hook_with(a);
	bool filter = !a->by_link && a->held_id;
	uint32_t at;
	int err = 0;

	if (!tchook_is_here(hook))
		return filter ? not_here(what, hook) : EXIT_OK;
	at = filter ? find_filter(hook) : 0;
	if (at) {
		FILTER(at_hook, opts, hook, at);

		err = bpf_tc_detach(&at_hook, &opts);
		if (err)
			return fail_errno(what, hook->identity.device, err);
	}
	remove_clsact(hook);
	return EXIT_OK;
}

void tchook_identify(const struct device *device, struct ccbpf_aqm_identity *identity)
{
	identity->netns = device->netns;
	identity->ifindex = device->ifindex;
	identity->instance = monotonic_ns();
	identity->made_clsact = !kernel_has_tcx() && !has_clsact(device->ifindex);
	snprintf(identity->device, sizeof(identity->device), "%s", device->name);
	snprintf(identity->version, sizeof(identity->version), "%s", CCBPF_VERSION);
}

int tchook_hold(const char *what, const struct bpf_object *obj, const struct device *device,
		struct tchook *hook)
{
	const char *program = hook->kind->attachment->program;
	int fd = bpf_program__fd(bpf_object__find_program_by_name(obj, program));
	int err = pin_make_dir(what, pin_path(hook->kind->dir, NULL));

	if (!err)
		err = attachment_pin_maps(what, &hook->attachment, obj);
	if (err)
		return err;
	return kernel_has_tcx() ? attach_link(what, device, hook, fd)
				: attach_filter(what, device, hook, fd);
}

int tchook_remove(const char *what, struct tchook *hook)
{
	int err = attachment_remove(what, &hook->attachment);

	if (!err)
		rmdir(pin_path(hook->kind->dir, NULL)); /* refused unless empty */
	return err;
}
