// SPDX-License-Identifier: GPL-2.0-only
/* What holds nf_red on a device: see hook.h. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm/hook.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "sys/qdisc.h"
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

/* The id of a program of ours, 0 for another one. */
static uint32_t program_id_of(int fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	return bpf_prog_get_info_by_fd(fd, &info, &size) || info.type != BPF_PROG_TYPE_SCHED_CLS ||
			       strcmp(info.name, AQM_PROGRAM)
		       ? 0
		       : info.id;
}

/* Whether a program is known to be another one: without CAP_SYS_ADMIN it is taken for ours. */
static bool is_foreign(uint32_t program_id)
{
	int fd = bpf_prog_get_fd_by_id(program_id);
	bool foreign = fd >= 0 && !program_id_of(fd);

	if (fd >= 0)
		close(fd);
	return foreign;
}

enum aqm_state hook_read_link(struct aqm *aqm)
{
	bool ours = aqm->identity.netns == device_netns();
	struct bpf_link_info info = { 0 };
	__u32 size = sizeof(info);

	if (bpf_link_get_info_by_fd(aqm->hold_fd, &info, &size) || info.type != LINK_TYPE_TCX ||
	    is_foreign(info.prog_id))
		return AQM_UNREADABLE;
	aqm->link_id = info.id;
	aqm->program_id = info.prog_id;
	if (ours && !device_name(aqm->identity.ifindex))
		return AQM_GONE; /* a link goes with a device that is moved */
	if (info.xdp.ifindex == aqm->identity.ifindex) /* tcx's is there too */
		return AQM_ATTACHED;
	return ours ? AQM_TAKEN : AQM_GONE;
}

/* The hook and our filter's place. */
#define FILTER(hook, opts, aqm, at)                                        \
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (aqm)->identity.ifindex, \
		    .attach_point = BPF_TC_EGRESS);                        \
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = (at))

/* The priority where our filter is, or 0. */
static uint32_t find_filter(const struct aqm *aqm)
{
	return filter_priority(aqm->identity.ifindex, aqm->program_id);
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

enum aqm_state hook_read_filter(struct aqm *aqm)
{
	aqm->by_filter = true;
	aqm->program_id = program_id_of(aqm->hold_fd);
	if (!aqm->program_id)
		return AQM_UNREADABLE;
	if (aqm->identity.netns != device_netns()) {
		aqm->elsewhere = true;
		return AQM_ATTACHED;
	}
	if (!device_name(aqm->identity.ifindex))
		return AQM_GONE;
	return find_filter(aqm) ? AQM_ATTACHED : AQM_TAKEN;
}

bool hook_has_clsact(uint32_t ifindex)
{
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	bool has = qdiscs_read(ifindex, all) || all->clsact;

	free(all);
	return has;
}

int hook_refuse_ingress(const char *what, const struct device *device)
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

int hook_attach_link(const char *what, const struct device *device, struct aqm *aqm, int program_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = TCX_BEFORE);

	aqm->hold_fd = bpf_link_create(program_fd, device->ifindex, ATTACH_TCX_EGRESS, &opts);
	if (aqm->hold_fd < 0)
		return fail_errno(what, device->name, errno);
	aqm->state = hook_read_link(aqm);
	return pin_make(what, aqm->hold_fd, pin_path(aqm->dir, AQM_PIN_LINK));
}

int hook_attach_filter(const char *what, const struct device *device, struct aqm *aqm,
		       int program_fd)
{
	int err = pin_make(what, program_fd, pin_path(aqm->dir, AQM_PIN_PROGRAM));
	uint32_t first = first_priority(aqm);

	if (err)
		return err;
	aqm->hold_fd = dup(program_fd);
	aqm->program_id = program_id_of(program_fd);
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
	aqm->state = AQM_ATTACHED;
	return err ? fail_errno(what, device->name, err) : EXIT_OK;
}

void hook_remove_clsact(const struct aqm *aqm)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = aqm->identity.ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	if (aqm->identity.made_clsact && hook_has_clsact(hook.ifindex) &&
	    filters_count(hook.ifindex) == 0)
		bpf_tc_hook_destroy(&hook);
}

int hook_remove_filter(const char *what, const struct aqm *aqm)
{
	uint32_t at = find_filter(aqm);
	int err;

	if (at) {
		FILTER(hook, opts, aqm, at);

		err = bpf_tc_detach(&hook, &opts);
		if (err)
			return fail_errno(what, aqm->identity.device, err);
	}
	hook_remove_clsact(aqm);
	return EXIT_OK;
}
