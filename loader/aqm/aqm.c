// SPDX-License-Identifier: GPL-2.0-only
/* nf_red on a device, as its pins tell: see aqm.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "aqm/aqm.h"
#include "aqm/hook.h"
#include "aqm/maps.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "util/memory.h"
#include "util/text.h"

/* Open the pin that holds the attachment. */
static int read_hold(const char *what, struct aqm *aqm)
{
	const char *path = pin_path(aqm->dir, AQM_PIN_LINK);
	bool link = true;

	aqm->hold_fd = pin_open(path, PIN_KIND_LINK);
	if (aqm->hold_fd == -ENOENT) {
		path = pin_path(aqm->dir, AQM_PIN_PROGRAM);
		link = false;
		aqm->hold_fd = pin_open(path, PIN_KIND_PROGRAM);
	}
	if (aqm->hold_fd >= 0)
		aqm->state = link ? hook_read_link(aqm) : hook_read_filter(aqm);
	else if (aqm->hold_fd == -ENOENT)
		aqm->state = AQM_REST;
	else if (aqm->hold_fd == -EMEDIUMTYPE)
		aqm->state = AQM_UNREADABLE;
	else
		return fail_errno(what, path, aqm->hold_fd);
	return EXIT_OK;
}

/* What an identity of another layout says is not known. The directory's name says where
 * it is, and what holds it there can still be taken away. */
static int open_unreadable(const char *what, uint32_t netns, uint32_t ifindex, struct aqm *aqm)
{
	const char *device = netns == device_netns() ? device_name(ifindex) : NULL;
	int err;

	aqm->identity = (struct ccbpf_aqm_identity){ .netns = netns, .ifindex = ifindex };
	snprintf(aqm->identity.device, sizeof(aqm->identity.device), "%s",
		 device ?: text("device %u", ifindex));
	err = read_hold(what, aqm);
	aqm->state = AQM_UNREADABLE;
	return err;
}

static int open_dir(const char *what, uint32_t netns, uint32_t ifindex, struct aqm *aqm)
{
	int err;

	if (!pin_exists(pin_path(aqm->dir, NULL)))
		return EXIT_OK;
	err = aqm_read_map(aqm, AQM_MAP_IDENTITY, BPF_MAP_TYPE_ARRAY, sizeof(aqm->identity),
			   &aqm->identity);
	aqm->identity.device[CCBPF_AQM_NAME_LEN - 1] = '\0';
	aqm->identity.version[CCBPF_AQM_VERSION_LEN - 1] = '\0';
	if (err && err != -ENOENT && err != -EMEDIUMTYPE)
		return fail_errno(what, pin_path(aqm->dir, AQM_PIN_IDENTITY), err);
	if (err == -ENOENT)
		aqm->state = AQM_REST;
	else if (err || aqm->identity.abi != CCBPF_AQM_ABI || aqm->identity.netns != netns ||
		 aqm->identity.ifindex != ifindex)
		return open_unreadable(what, netns, ifindex, aqm);
	else
		return read_hold(what, aqm);
	return EXIT_OK;
}

int aqm_open(const char *what, uint32_t netns, uint32_t ifindex, struct aqm *out)
{
	*out = (struct aqm){ .hold_fd = -1 };
	snprintf(out->dir, sizeof(out->dir), AQM_DIR "/%u_%u", netns, ifindex);
	return open_dir(what, netns, ifindex, out);
}

void aqm_close(struct aqm *aqm)
{
	if (aqm->hold_fd >= 0)
		close(aqm->hold_fd);
	aqm->hold_fd = -1;
}

bool aqm_parse_dir(const char *name, uint32_t *netns, uint32_t *ifindex)
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
		if (!aqm_parse_dir(entry->d_name, &netns, &ifindex))
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

bool aqm_is_rest(const struct aqm *aqm)
{
	return aqm->state == AQM_REST || aqm->state == AQM_GONE || aqm->state == AQM_TAKEN;
}

const char *aqm_state_text(const struct aqm *aqm)
{
	static const char *const texts[] = {
		[AQM_ABSENT] = "it has no nf_red",
		[AQM_REST] = "an interrupted ccbpf left its pins",
		[AQM_GONE] = "its device is gone, or in another network namespace",
		[AQM_TAKEN] = "somebody took our program off the device",
		[AQM_ATTACHED] = "nf_red is attached",
		[AQM_UNREADABLE] = "the pin there is not one of this ccbpf",
	};

	return texts[aqm->state];
}
