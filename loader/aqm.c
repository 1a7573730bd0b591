// SPDX-License-Identifier: GPL-2.0-only
/* nf_red on a device: see aqm.h. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm.h"
#include "errors.h"
#include "kernel.h"
#include "objects.h"
#include "output.h"
#include "pins.h"

#define NAME "nf_red"
#define PIN_IDENTITY "identity"
#define PIN_LINK "link"
#define PIN_PROGRAM "program"

/* include/uapi/linux/bpf.h of 6.6: the headers here may be older */
#define LINK_TYPE_TCX 11
#define ATTACH_TCX_EGRESS 47

/*
 * Our filter: the first free one of these priorities. It is ours if it holds
 * our program, so none of this need be remembered.
 */
#define FILTER_HANDLE 1
#define FILTER_PRIORITY 0xcb00
#define FILTER_PRIORITIES 16

static const char *const map_pins[] = { PIN_IDENTITY, "config", "state",
					"counts" };
static const char *const map_names[] = { ".rodata.identity", ".data.config",
					 ".data.state", "counts" };
#define MAPS (sizeof(map_pins) / sizeof(map_pins[0]))

/* --- what is pinned -------------------------------------------------------- */

static int open_map(const struct aqm *aqm, const char *pin,
		    enum bpf_map_type type, uint32_t value_size)
{
	struct map_shape shape = { type, sizeof(uint32_t), value_size, 1 };

	return pin_open_map(pin_path(aqm->dir, pin), &shape);
}

/* Read a map of one value. Returns 0 or -errno. */
static int read_one(const struct aqm *aqm, const char *pin,
		    enum bpf_map_type type, uint32_t value_size, void *out)
{
	uint32_t zero = 0;
	int err, fd = open_map(aqm, pin, type, value_size);

	if (fd < 0)
		return fd;
	err = bpf_map_lookup_elem(fd, &zero, out) ? -errno : 0;
	close(fd);
	return err;
}

static int read_array(const char *what, const struct aqm *aqm, const char *pin,
		      uint32_t value_size, void *out)
{
	int err = read_one(aqm, pin, BPF_MAP_TYPE_ARRAY, value_size, out);

	return err ? pin_unusable(what, pin_path(aqm->dir, pin), err) : EXIT_OK;
}

int aqm_read_config(const char *what, const struct aqm *aqm,
		    struct ccbpf_aqm_config *out)
{
	return read_array(what, aqm, "config", sizeof(*out), out);
}

int aqm_read_state(const char *what, const struct aqm *aqm,
		   struct ccbpf_aqm_state *out)
{
	return read_array(what, aqm, "state", sizeof(*out), out);
}

int aqm_write_config(const char *what, const struct aqm *aqm,
		     const struct ccbpf_aqm_config *config)
{
	uint32_t zero = 0;
	int err = 0,
	    fd = open_map(aqm, "config", BPF_MAP_TYPE_ARRAY, sizeof(*config));

	if (fd < 0)
		return pin_unusable(what, pin_path(aqm->dir, "config"), fd);
	if (bpf_map_update_elem(fd, &zero, config, BPF_ANY))
		err = fail_errno(what, pin_path(aqm->dir, "config"), errno);
	close(fd);
	return err;
}

int aqm_read_counts(const char *what, const struct aqm *aqm,
		    struct ccbpf_aqm_counts *out)
{
	int cpus = libbpf_num_possible_cpus(), err;
	struct ccbpf_aqm_counts *each =
		must_alloc(cpus > 0 ? cpus : 1, sizeof(*each));
	__u64 *sum = (void *)out;

	err = read_one(aqm, "counts", BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(*each),
		       each);
	memset(out, 0, sizeof(*out));
	for (int cpu = 0; !err && cpu < cpus; cpu++) /* all are __u64 */
		for (size_t i = 0; i < sizeof(*out) / sizeof(*sum); i++)
			sum[i] += ((const __u64 *)&each[cpu])[i];
	free(each);
	return err ? pin_unusable(what, pin_path(aqm->dir, "counts"), err)
		   : EXIT_OK;
}

static uint32_t program_id_of(int fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);

	return bpf_prog_get_info_by_fd(fd, &info, &size) ? 0 : info.id;
}

static enum aqm_state read_link(struct aqm *aqm)
{
	bool ours = aqm->identity.netns == device_netns();
	struct bpf_link_info info = { 0 };
	__u32 size = sizeof(info);

	if (bpf_link_get_info_by_fd(aqm->hold_fd, &info, &size) ||
	    info.type != LINK_TYPE_TCX)
		return AQM_UNREADABLE;
	aqm->link_id = info.id;
	aqm->program_id = info.prog_id;
	if (ours && !device_name(aqm->identity.ifindex))
		return AQM_GONE; /* a link goes with a device that is moved */
	if (info.xdp.ifindex == aqm->identity.ifindex) /* tcx's is there too */
		return AQM_ATTACHED;
	return ours ? AQM_TAKEN : AQM_GONE;
}

/* The hook and one of our filters' places. */
#define FILTER(hook, opts, aqm, i)                                         \
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (aqm)->identity.ifindex, \
		    .attach_point = BPF_TC_EGRESS);                        \
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE,            \
		    .priority = FILTER_PRIORITY + (i))

/* The priority where our filter is, counted from 0, or -1. */
static int find_filter(const struct aqm *aqm)
{
	for (int i = 0; i < FILTER_PRIORITIES; i++) {
		FILTER(hook, opts, aqm, i);

		if (bpf_tc_query(&hook, &opts) == 0 &&
		    opts.prog_id == aqm->program_id)
			return i;
	}
	return -1;
}

static enum aqm_state read_program(struct aqm *aqm)
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
	return find_filter(aqm) >= 0 ? AQM_ATTACHED : AQM_TAKEN;
}

/* Open the pin that holds the attachment. */
static int read_hold(const char *what, struct aqm *aqm)
{
	const char *path = pin_path(aqm->dir, PIN_LINK);
	bool link = true;

	aqm->hold_fd = bpf_obj_get(path);
	if (aqm->hold_fd < 0 && errno == ENOENT) {
		path = pin_path(aqm->dir, PIN_PROGRAM);
		link = false;
		aqm->hold_fd = bpf_obj_get(path);
	}
	if (aqm->hold_fd >= 0)
		aqm->state = link ? read_link(aqm) : read_program(aqm);
	else if (errno == ENOENT)
		aqm->state = AQM_REST;
	else if (errno == EPERM || errno == EACCES)
		return fail_errno(what, path, errno);
	else
		aqm->state = AQM_UNREADABLE;
	return EXIT_OK;
}

/* What an identity of another layout says is not known. The directory's name says where
 * it is, and what holds it there can still be taken away. */
static int open_unreadable(const char *what, uint32_t netns, uint32_t ifindex,
			   struct aqm *aqm)
{
	const char *device = netns == device_netns() ? device_name(ifindex) :
						       NULL;
	int err;

	aqm->identity = (struct ccbpf_aqm_identity){ .netns = netns,
						     .ifindex = ifindex };
	snprintf(aqm->identity.device, sizeof(aqm->identity.device), "%s",
		 device ?: text("device %u", ifindex));
	err = read_hold(what, aqm);
	aqm->state = AQM_UNREADABLE;
	return err;
}

static int open_dir(const char *what, uint32_t netns, uint32_t ifindex,
		    struct aqm *aqm)
{
	int err;

	if (!pin_exists(pin_path(aqm->dir, NULL)))
		return EXIT_OK;
	err = read_one(aqm, PIN_IDENTITY, BPF_MAP_TYPE_ARRAY,
		       sizeof(aqm->identity), &aqm->identity);
	aqm->identity.device[CCBPF_AQM_NAME_LEN - 1] = '\0';
	aqm->identity.version[CCBPF_AQM_VERSION_LEN - 1] = '\0';
	if (err == -EPERM || err == -EACCES)
		return fail_errno(what, pin_path(aqm->dir, PIN_IDENTITY), err);
	if (err == -ENOENT)
		aqm->state = AQM_REST;
	else if (err || aqm->identity.abi != CCBPF_AQM_ABI)
		return open_unreadable(what, netns, ifindex, aqm);
	else
		return read_hold(what, aqm);
	return EXIT_OK;
}

int aqm_open(const char *what, uint32_t netns, uint32_t ifindex,
	     struct aqm *out)
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

/* Whether a directory's name is one of ours. */
static bool parse_name(const char *name, uint32_t *netns, uint32_t *ifindex)
{
	int end = 0;

	return sscanf(name, "%u_%u%n", netns, ifindex, &end) == 2 &&
	       !name[end] && strcmp(name, text("%u_%u", *netns, *ifindex)) == 0;
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
			       : fail_errno(what, pin_path(AQM_DIR, NULL),
					    errno);
	while ((entry = readdir(dir))) {
		if (!parse_name(entry->d_name, &netns, &ifindex))
			continue;
		*out = must_grow(*out, (*n + 1) * sizeof(**out));
		failed = aqm_open(what, netns, ifindex, &(*out)[*n]);
		*n += !failed;
		err = err ?: failed;
	}
	closedir(dir);
	return err;
}

bool aqm_is_rest(const struct aqm *aqm)
{
	return aqm->state == AQM_REST || aqm->state == AQM_GONE ||
	       aqm->state == AQM_TAKEN;
}

const char *aqm_state_text(const struct aqm *aqm)
{
	static const char *const texts[] = {
		[AQM_ABSENT] = "it has no nf_red",
		[AQM_REST] = "an interrupted ccbpf left its pins",
		[AQM_GONE] =
			"its device is gone, or in another network namespace",
		[AQM_TAKEN] = "somebody took our program off the device",
		[AQM_ATTACHED] = "nf_red is attached",
		[AQM_UNREADABLE] =
			"what is pinned there is not what this ccbpf keeps there",
	};

	return texts[aqm->state];
}

/* --- attach ---------------------------------------------------------------- */

int aqm_require(const char *what)
{
	return kernel_require_bpf(what);
}

static int bad_object(const char *what, const char *name)
{
	return FAIL(
		EXIT_FAILED, .what = what, .on = NAME,
		.why = text(
			"its object has no map `%s` of this version's layout",
			name),
		.remedy =
			"build ccbpf anew: object and command belong together");
}

/* What a data map begins with; NULL where it has another size. */
static void *initial(struct bpf_object *obj, const char *name, size_t size)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, name);
	size_t its = 0;
	void *value = map ? bpf_map__initial_value(map, &its) : NULL;

	return its == size ? value : NULL;
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

static int fill(const char *what, struct bpf_object *obj,
		const struct device *device,
		const struct ccbpf_aqm_config *config, struct aqm *aqm)
{
	struct ccbpf_aqm_identity *identity =
		initial(obj, map_names[0], sizeof(*identity));
	struct ccbpf_aqm_config *its = initial(obj, map_names[1], sizeof(*its));

	if (!identity || !its)
		return bad_object(what, map_names[identity ? 1 : 0]);
	identity->netns = device->netns;
	identity->ifindex = device->ifindex;
	identity->instance = monotonic_ns();
	identity->made_clsact = aqm->by_filter && !has_clsact(device->ifindex);
	snprintf(identity->device, sizeof(identity->device), "%s",
		 device->name);
	snprintf(identity->version, sizeof(identity->version), "%s",
		 CCBPF_VERSION);
	aqm->identity = *identity;
	*its = *config;
	return EXIT_OK;
}

static int load(const char *what, struct bpf_object *obj)
{
	int err = bpf_object__load(obj);

	return err ? fail_load(what, NAME, err) : EXIT_OK;
}

static int pin_maps(const char *what, struct bpf_object *obj,
		    const struct aqm *aqm)
{
	int err = pin_make_dir(what, pin_path(AQM_DIR, NULL))
			  ?: pin_make_dir(what, pin_path(aqm->dir, NULL));

	for (size_t i = 0; !err && i < MAPS; i++) {
		struct bpf_map *map =
			bpf_object__find_map_by_name(obj, map_names[i]);

		err = map ? pin_make(what, bpf_map__fd(map),
				     pin_path(aqm->dir, map_pins[i]))
			  : bad_object(what, map_names[i]);
	}
	return err;
}

static int attach_link(const char *what, const struct device *device,
		       struct aqm *aqm, int program_fd)
{
	aqm->hold_fd = bpf_link_create(program_fd, device->ifindex,
				       ATTACH_TCX_EGRESS, NULL);
	if (aqm->hold_fd < 0)
		return fail_errno(what, device->name, errno);
	aqm->state = read_link(aqm);
	return pin_make(what, aqm->hold_fd, pin_path(aqm->dir, PIN_LINK));
}

static int attach_filter(const char *what, const struct device *device,
			 struct aqm *aqm, int program_fd)
{
	int err = pin_make(what, program_fd, pin_path(aqm->dir, PIN_PROGRAM));

	if (err)
		return err;
	aqm->hold_fd = dup(program_fd);
	aqm->program_id = program_id_of(program_fd);
	for (int i = 0; i < FILTER_PRIORITIES; i++) {
		FILTER(hook, opts, aqm, i);

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

int aqm_attach(const char *what, const struct device *device,
	       const struct ccbpf_aqm_config *config, struct aqm *aqm)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = NAME,
		    .kernel_log_level = output.verbose > 1 ? 1 : 0);
	struct bpf_object *obj;
	int err, fd;

	aqm->by_filter = !kernel_has_tcx();
	err = aqm->by_filter ? refuse_ingress(what, device) : EXIT_OK;
	if (err)
		return err;
	obj = bpf_object__open_mem(
		ccbpf_object_nf_red,
		ccbpf_object_nf_red_end - ccbpf_object_nf_red, &opts);
	if (!obj)
		return fail_errno(what, NAME, errno);
	err = fill(what, obj, device, config, aqm) ?: load(what, obj);
	if (err)
		goto out;
	err = pin_maps(what, obj, aqm);
	fd = bpf_program__fd(bpf_object__find_program_by_name(obj, NAME));
	if (!err && aqm->by_filter)
		err = attach_filter(what, device, aqm, fd);
	else if (!err)
		err = attach_link(what, device, aqm, fd);
	if (err)
		aqm_remove(what, aqm);
out:
	bpf_object__close(obj);
	return err;
}

/* --- detach ---------------------------------------------------------------- */

/* The clsact that we made goes when nobody else uses it. */
static void remove_clsact(const struct aqm *aqm)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = aqm->identity.ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);

	if (aqm->identity.made_clsact && has_clsact(hook.ifindex) &&
	    filters_count(hook.ifindex) == 0)
		bpf_tc_hook_destroy(&hook);
}

static int remove_filter(const char *what, const struct aqm *aqm)
{
	int err, i = find_filter(aqm);

	if (i >= 0) {
		FILTER(hook, opts, aqm, i);

		err = bpf_tc_detach(&hook, &opts);
		if (err)
			return fail_errno(what, aqm->identity.device, err);
	}
	remove_clsact(aqm);
	return EXIT_OK;
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
	static const char *const holds[] = { PIN_LINK, PIN_PROGRAM };
	bool here = aqm->identity.netns == device_netns();
	int err = 0;

	if (aqm->elsewhere)
		return not_here(what, aqm);
	if (here && aqm->by_filter && aqm->program_id)
		err = remove_filter(what, aqm);
	else if (here && aqm->identity.made_clsact)
		remove_clsact(aqm);
	if (err)
		return err;
	for (size_t i = 0; !err && i < 2; i++)
		err = pin_remove(pin_path(aqm->dir, holds[i]));
	for (size_t i = MAPS; !err && i-- > 0;) /* the identity last */
		err = pin_remove(pin_path(aqm->dir, map_pins[i]));
	err = err ?: pin_remove_dir(pin_path(aqm->dir, NULL));
	if (err)
		return fail_errno(what, pin_path(aqm->dir, NULL), err);
	rmdir(pin_path(AQM_DIR, NULL)); /* refused unless empty */
	return EXIT_OK;
}

/* --- clean ----------------------------------------------------------------- */

int aqm_sweep(const char *what, bool all, struct json_object *removed)
{
	struct aqm *found;
	unsigned int n;
	int err = aqm_open_all(what, &found, &n);

	for (unsigned int i = 0; i < n; i++) {
		bool goes = aqm_is_rest(&found[i]) ||
			    (all && found[i].state != AQM_ABSENT);
		int failed = goes ? aqm_remove(what, &found[i]) : EXIT_OK;

		if (goes && !failed && removed)
			json_object_array_add(
				removed, json_text(
						 pin_path(found[i].dir, NULL)));
		err = err ?: failed;
		aqm_close(&found[i]);
	}
	free(found);
	rmdir(pin_path(AQM_DIR, NULL)); /* an interrupted attach may leave it */
	return err;
}

static bool is_own_pin(const char *name)
{
	for (size_t i = 0; i < MAPS; i++)
		if (strcmp(name, map_pins[i]) == 0)
			return true;
	return !strcmp(name, PIN_LINK) || !strcmp(name, PIN_PROGRAM);
}

static void collect(const char *dir, bool top, struct json_object *foreign)
{
	DIR *open = opendir(pin_path(dir, NULL));
	char below[sizeof(((struct aqm *)0)->dir)];
	uint32_t netns, ifindex;
	struct dirent *entry;

	while (open && (entry = readdir(open))) {
		const char *name = entry->d_name;

		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		if (top && parse_name(name, &netns, &ifindex)) {
			snprintf(below, sizeof(below), AQM_DIR "/%u_%u", netns,
				 ifindex);
			collect(below, false, foreign);
		} else if (top || !is_own_pin(name)) {
			json_object_array_add(
				foreign,
				json_text(pin_path(dir, name)));
		}
	}
	if (open)
		closedir(open);
}

void aqm_collect_foreign(struct json_object *foreign)
{
	collect(AQM_DIR, true, foreign);
}
