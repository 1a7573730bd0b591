// SPDX-License-Identifier: GPL-2.0-only
/* A tc program of ours at a device: its pins. See tchook.h. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/netns.h"
#include "sys/pins.h"
#include "sys/tchook.h"
#include "util/memory.h"
#include "util/text.h"

struct tchook tchook_of(const struct tchook_kind *kind, uint32_t netns, uint32_t ifindex)
{
	struct tchook hook = { .kind = kind, .identity = { .netns = netns, .ifindex = ifindex } };

	hook.attachment =
		(struct attachment){ .kind = kind->attachment, .maps = kind->maps, .hold_fd = -1 };
	snprintf(hook.attachment.dir, sizeof(hook.attachment.dir), "%s/%u_%u%s", kind->dir, netns,
		 ifindex, kind->suffix);
	return hook;
}

int tchook_open(const char *what, const struct tchook_kind *kind, uint32_t netns, uint32_t ifindex,
		struct tchook *out)
{
	struct ccbpf_aqm_identity *identity = &out->identity;
	enum attachment_state *state = &out->attachment.state;
	const char *device;
	int err;

	*out = tchook_of(kind, netns, ifindex);
	err = attachment_open(what, &out->attachment, identity);
	identity->device[CCBPF_AQM_NAME_LEN - 1] = '\0';
	identity->version[CCBPF_AQM_VERSION_LEN - 1] = '\0';
	if (identity->abi && identity->netns == netns && identity->ifindex == ifindex)
		return err;
	if (identity->abi)
		*state = ATTACHMENT_UNREADABLE;
	/* The directory's name says where it is, and what holds it there can be taken away. */
	*identity = (struct ccbpf_aqm_identity){ .netns = netns, .ifindex = ifindex };
	device = *state == ATTACHMENT_UNREADABLE && tchook_is_here(out) ? device_name(ifindex)
									: NULL;
	if (*state == ATTACHMENT_UNREADABLE)
		snprintf(identity->device, sizeof(identity->device), "%s",
			 device ?: text("device %u", ifindex));
	return err;
}

bool tchook_is_attached(const struct tchook *hook)
{
	return hook->attachment.state == ATTACHMENT_HELD;
}

bool tchook_is_here(const struct tchook *hook)
{
	return hook->identity.netns == device_netns();
}

const char *tchook_device(const struct tchook *hook)
{
	const char *now = tchook_is_here(hook) ? device_name(hook->identity.ifindex) : NULL;

	return now ?: hook->identity.device;
}

/* Whether a directory's name is one of ours, and of which device. */
static bool parse_dir(const struct tchook_kind *kind, const char *name, uint32_t *netns,
		      uint32_t *ifindex)
{
	int end = 0;

	return sscanf(name, "%u_%u%n", netns, ifindex, &end) == 2 &&
	       strcmp(name, text("%u_%u%s", *netns, *ifindex, kind->suffix)) == 0;
}

int tchook_open_all(const char *what, const struct tchook_kind *kind, struct tchook **out,
		    unsigned int *n)
{
	DIR *dir = opendir(pin_path(kind->dir, NULL));
	struct dirent *entry;
	uint32_t netns, ifindex;
	int failed, err = EXIT_OK;

	*out = NULL;
	*n = 0;
	if (!dir)
		return errno == ENOENT || errno == ENOTDIR
			       ? EXIT_OK
			       : fail_errno(what, pin_path(kind->dir, NULL), errno);
	while ((entry = readdir(dir))) {
		if (!parse_dir(kind, entry->d_name, &netns, &ifindex))
			continue;
		*out = must_grow(*out, (*n + 1) * sizeof(**out));
		failed = tchook_open(what, kind, netns, ifindex, &(*out)[*n]);
		*n += !failed;
		if (!err)
			err = failed;
	}
	closedir(dir);
	return err;
}

/* Where a device of this name has one: the inode of another network namespace, or 0. */
static uint32_t find_elsewhere(const char *what, const struct tchook_kind *kind, const char *name)
{
	struct tchook *found;
	uint32_t netns = 0;
	unsigned int n;

	tchook_open_all(what, kind, &found, &n);
	for (unsigned int i = 0; i < n; i++) {
		if (tchook_is_attached(&found[i]) && !tchook_is_here(&found[i]) &&
		    !strcmp(found[i].identity.device, name))
			netns = found[i].identity.netns;
		attachment_close(&found[i].attachment);
	}
	free(found);
	return netns;
}

int tchook_require_device(const char *what, const struct tchook_kind *kind, const char *name,
			  struct device *device)
{
	bool missing = device_find(name, device) == -ENODEV;
	uint32_t elsewhere = missing ? find_elsewhere(what, kind, name) : 0;
	const char *there = elsewhere ? netns_name(elsewhere) : NULL;

	if (!elsewhere)
		return device_require(what, name, device);
	return FAIL(
		EXIT_FAILED, .what = what, .on = name,
		.why = text(
			"there is no such device in this network namespace; the one that has %s is%s",
			kind->title, netns_place(elsewhere)),
		.remedy = text(
			"enter that by %s, or take it off all devices by `ccbpf %s detach --all`",
			there ? text("`ip netns exec %s`", there) : "nsenter(1)", kind->command));
}

const char *tchook_state_text(const struct tchook *hook)
{
	static const char *const texts[] = {
		[ATTACHMENT_ABSENT] = "it has none",
		[ATTACHMENT_STALE] = "an interrupted ccbpf left its pins",
		[ATTACHMENT_GONE] = "its device is gone, or in another network namespace",
		[ATTACHMENT_DETACHED] = "somebody took our program off the device",
		[ATTACHMENT_HELD] = "it is attached",
		[ATTACHMENT_UNREADABLE] = "the pin there is not one of this ccbpf",
	};

	return texts[hook->attachment.state];
}

static const char *path_of(const struct tchook *hook, unsigned int map)
{
	return attachment_path(&hook->attachment, hook->kind->maps[map].pin);
}

int tchook_read_map(const char *what, const struct tchook *hook, unsigned int map, void *out)
{
	int err = attachment_read_map(&hook->attachment, map, out);

	return err ? pin_unusable(what, path_of(hook, map), err) : EXIT_OK;
}

int tchook_read_sums(const char *what, const struct tchook *hook, unsigned int map, __u64 *sums,
		     unsigned int n)
{
	int cpus = libbpf_num_possible_cpus(), err;
	__u64 *each = must_alloc(cpus > 0 ? cpus : 1, n * sizeof(*each));

	err = tchook_read_map(what, hook, map, each);
	memset(sums, 0, n * sizeof(*sums));
	for (int cpu = 0; !err && cpu < cpus; cpu++)
		for (unsigned int i = 0; i < n; i++)
			sums[i] += each[cpu * n + i];
	free(each);
	return err;
}

int tchook_sweep(const char *what, const struct tchook_kind *kind, bool all,
		 struct json_object *removed)
{
	struct tchook *found;
	unsigned int n;
	int err = tchook_open_all(what, kind, &found, &n);

	for (unsigned int i = 0; i < n; i++) {
		int failed = attachment_sweep(what, &found[i].attachment, all, removed);

		if (!err)
			err = failed;
		attachment_close(&found[i].attachment);
	}
	free(found);
	if (all)
		pin_remove_dir(pin_path(kind->dir, NULL));
	else
		rmdir(pin_path(kind->dir, NULL)); /* an interrupted attach may leave it */
	return err;
}

/* What foreign_in() is given. */
struct foreign_search {
	const struct tchook_kind *const *kinds;
	unsigned int n;
	struct json_object *foreign;
};

/* The directory of a device is; what lies in it and is not ours is put behind `foreign` too. */
static bool is_ours(void *data, const char *name)
{
	const struct foreign_search *search = data;
	uint32_t netns, ifindex;
	struct tchook hook;

	for (unsigned int i = 0; i < search->n; i++) {
		if (!parse_dir(search->kinds[i], name, &netns, &ifindex))
			continue;
		hook = tchook_of(search->kinds[i], netns, ifindex);
		attachment_foreign(&hook.attachment, search->foreign);
		return true;
	}
	return false;
}

void tchook_foreign(const struct tchook_kind *const *kinds, unsigned int n,
		    struct json_object *foreign)
{
	foreign_in(kinds[0]->dir, is_ours, &(struct foreign_search){ kinds, n, foreign }, foreign);
}
