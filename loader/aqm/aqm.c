// SPDX-License-Identifier: GPL-2.0-only
/* nf_red on a device, as its pins tell: see aqm.h. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm/aqm.h"
#include "aqm/attach.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "util/memory.h"
#include "util/text.h"

const struct attachment_map aqm_maps[AQM_MAPS] = {
	[AQM_MAP_IDENTITY] = { PIN_IDENTITY, ".rodata.identity",
			       ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_aqm_identity)) },
	[AQM_MAP_CONFIG] = { "config", ".data.config",
			     ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_aqm_config)) },
	[AQM_MAP_STATE] = { "state", ".data.state",
			    ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_aqm_state)) },
	[AQM_MAP_COUNTS] = { "counts", "counts",
			     ONE_VALUE(BPF_MAP_TYPE_PERCPU_ARRAY,
				       sizeof(struct ccbpf_aqm_counts)) },
};

struct aqm aqm_of(uint32_t netns, uint32_t ifindex)
{
	struct aqm aqm = { .identity = { .netns = netns, .ifindex = ifindex } };

	aqm.attachment =
		(struct attachment){ .kind = &aqm_attachment, .maps = aqm_maps, .hold_fd = -1 };
	snprintf(aqm.attachment.dir, sizeof(aqm.attachment.dir), AQM_DIR "/%u_%u", netns, ifindex);
	return aqm;
}

int aqm_open(const char *what, uint32_t netns, uint32_t ifindex, struct aqm *out)
{
	struct ccbpf_aqm_identity *identity = &out->identity;
	enum attachment_state *state = &out->attachment.state;
	const char *device;
	int err;

	*out = aqm_of(netns, ifindex);
	err = attachment_open(what, &out->attachment, identity);
	identity->device[CCBPF_AQM_NAME_LEN - 1] = '\0';
	identity->version[CCBPF_AQM_VERSION_LEN - 1] = '\0';
	if (identity->abi && identity->netns == netns && identity->ifindex == ifindex)
		return err;
	if (identity->abi)
		*state = ATTACHMENT_UNREADABLE;
	/* The directory's name says where it is, and what holds it there can be taken away. */
	*identity = (struct ccbpf_aqm_identity){ .netns = netns, .ifindex = ifindex };
	device = *state == ATTACHMENT_UNREADABLE && aqm_is_here(out) ? device_name(ifindex) : NULL;
	if (*state == ATTACHMENT_UNREADABLE)
		snprintf(identity->device, sizeof(identity->device), "%s",
			 device ?: text("device %u", ifindex));
	return err;
}

bool aqm_is_attached(const struct aqm *aqm)
{
	return aqm->attachment.state == ATTACHMENT_HELD;
}

bool aqm_is_here(const struct aqm *aqm)
{
	return aqm->identity.netns == device_netns();
}

/* Whether a directory's name is one of ours, and of which device. */
static bool parse_dir(const char *name, uint32_t *netns, uint32_t *ifindex)
{
	int end = 0;

	return sscanf(name, "%u_%u%n", netns, ifindex, &end) == 2 && !name[end] &&
	       strcmp(name, text("%u_%u", *netns, *ifindex)) == 0;
}

int aqm_open_all(const char *what, struct aqm **out, unsigned int *n)
{
	DIR *dir = opendir(pin_path(AQM_DIR, NULL));
	struct dirent *entry;
	uint32_t netns, ifindex;
	int failed, err = EXIT_OK;

	*out = NULL;
	*n = 0;
	if (!dir)
		return errno == ENOENT || errno == ENOTDIR
			       ? EXIT_OK
			       : fail_errno(what, pin_path(AQM_DIR, NULL), errno);
	while ((entry = readdir(dir))) {
		if (!parse_dir(entry->d_name, &netns, &ifindex))
			continue;
		*out = must_grow(*out, (*n + 1) * sizeof(**out));
		failed = aqm_open(what, netns, ifindex, &(*out)[*n]);
		*n += !failed;
		if (!err)
			err = failed;
	}
	closedir(dir);
	return err;
}

const char *aqm_state_text(const struct aqm *aqm)
{
	static const char *const texts[] = {
		[ATTACHMENT_ABSENT] = "it has no nf_red",
		[ATTACHMENT_STALE] = "an interrupted ccbpf left its pins",
		[ATTACHMENT_GONE] = "its device is gone, or in another network namespace",
		[ATTACHMENT_DETACHED] = "somebody took our program off the device",
		[ATTACHMENT_HELD] = "nf_red is attached",
		[ATTACHMENT_UNREADABLE] = "the pin there is not one of this ccbpf",
	};

	return texts[aqm->attachment.state];
}

static const char *path_of(const struct aqm *aqm, enum aqm_map map)
{
	return attachment_path(&aqm->attachment, aqm_maps[map].pin);
}

static int read_map(const char *what, const struct aqm *aqm, enum aqm_map map, void *out)
{
	int err = attachment_read_map(&aqm->attachment, map, out);

	return err ? pin_unusable(what, path_of(aqm, map), err) : EXIT_OK;
}

int aqm_read_config(const char *what, const struct aqm *aqm, struct ccbpf_aqm_config *out)
{
	return read_map(what, aqm, AQM_MAP_CONFIG, out);
}

int aqm_read_state(const char *what, const struct aqm *aqm, struct ccbpf_aqm_state *out)
{
	return read_map(what, aqm, AQM_MAP_STATE, out);
}

int aqm_write_config(const char *what, const struct aqm *aqm, const struct ccbpf_aqm_config *config)
{
	uint32_t zero = 0;
	int err = 0, fd = attachment_open_map(&aqm->attachment, AQM_MAP_CONFIG);

	if (fd < 0)
		return pin_unusable(what, path_of(aqm, AQM_MAP_CONFIG), fd);
	if (bpf_map_update_elem(fd, &zero, config, BPF_ANY))
		err = fail_errno(what, path_of(aqm, AQM_MAP_CONFIG), errno);
	close(fd);
	return err;
}

int aqm_read_counts(const char *what, const struct aqm *aqm, struct ccbpf_aqm_counts *out)
{
	int cpus = libbpf_num_possible_cpus(), err;
	struct ccbpf_aqm_counts *each = must_alloc(cpus > 0 ? cpus : 1, sizeof(*each));
	__u64 *sum = (void *)out;

	err = read_map(what, aqm, AQM_MAP_COUNTS, each);
	memset(out, 0, sizeof(*out));
	for (int cpu = 0; !err && cpu < cpus; cpu++) /* all are __u64 */
		for (size_t i = 0; i < sizeof(*out) / sizeof(*sum); i++)
			sum[i] += ((const __u64 *)&each[cpu])[i];
	free(each);
	return err;
}

int aqm_sweep(const char *what, bool all, struct json_object *removed)
{
	struct aqm *found;
	unsigned int n;
	int err = aqm_open_all(what, &found, &n);

	for (unsigned int i = 0; i < n; i++) {
		int failed = attachment_sweep(what, &found[i].attachment, all, removed);

		if (!err)
			err = failed;
		attachment_close(&found[i].attachment);
	}
	free(found);
	if (all)
		pin_remove_dir(pin_path(AQM_DIR, NULL));
	else
		rmdir(pin_path(AQM_DIR, NULL)); /* an interrupted attach may leave it */
	return err;
}

/* The directory of a device is; what lies in it and is not ours is put behind `foreign` too. */
static bool is_ours(void *foreign, const char *name)
{
	uint32_t netns, ifindex;
	struct aqm aqm;

	if (!parse_dir(name, &netns, &ifindex))
		return false;
	aqm = aqm_of(netns, ifindex);
	attachment_foreign(&aqm.attachment, foreign);
	return true;
}

void aqm_foreign(struct json_object *foreign)
{
	foreign_in(AQM_DIR, is_ours, foreign, foreign);
}
