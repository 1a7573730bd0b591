// SPDX-License-Identifier: GPL-2.0-only
/* The maps that programs share: see shared.h. */
#include <errno.h>
#include <unistd.h>

#include "sys/shared.h"
#include "ccbpf/controllers.h"
#include "ccbpf/event.h"
#include "ccbpf/flow.h"
#include "ccbpf/rule.h"
#include "ccbpf/stats.h"
#include "out/errors.h"
#include "sys/objects.h"
#include "sys/pins.h"

static const struct {
	const char *name;
	struct map_shape shape;
} maps[SHARED_MAPS] = {
	[SHARED_FLOWS] = { "flows",
			   { BPF_MAP_TYPE_HASH, sizeof(__u64), sizeof(struct ccbpf_flow), 0 } },
	[SHARED_EVENTS] = { "events", { BPF_MAP_TYPE_RINGBUF, 0, 0, 0 } },
	[SHARED_STATS] = { "stats",
			   { BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(__u32), sizeof(struct ccbpf_stats),
			     CCBPF_KINDS } },
	[SHARED_TOTALS] = { "totals",
			    { BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(__u32), sizeof(struct ccbpf_totals),
			      CCBPF_KINDS } },
	[SHARED_UNITS] = { "unit_totals",
			   { BPF_MAP_TYPE_LRU_HASH, sizeof(struct ccbpf_unit_key),
			     sizeof(struct ccbpf_totals), 0 } },
	[SHARED_RULES] = { "rule_totals",
			   { BPF_MAP_TYPE_LRU_HASH, sizeof(struct ccbpf_ruled_key),
			     sizeof(struct ccbpf_totals), 0 } },
	[SHARED_RULED] = { "ruled",
			   { BPF_MAP_TYPE_SK_STORAGE, sizeof(int), sizeof(struct ccbpf_chosen),
			     0 } },
	[SHARED_LISTENER] = { "listener", ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(__u64)) },
};

const char *shared_name(enum shared map)
{
	return maps[map].name;
}

int shared_open_quietly(enum shared map)
{
	return pin_open_map(pin_path(maps[map].name, NULL), &maps[map].shape);
}

int shared_open(const char *what, enum shared map, int *fd)
{
	*fd = shared_open_quietly(map);
	if (*fd >= 0)
		return EXIT_OK;
	if (*fd != -ENOENT)
		return pin_unusable(what, pin_path(maps[map].name, NULL), *fd);
	*fd = -1;
	return EXIT_OK;
}

/* Programs may be refused a map that was made with other flags: read-only ones. */
static bool same_flags(const struct bpf_map *map, int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	return bpf_map_get_info_by_fd(fd, &info, &size) == 0 &&
	       info.map_flags == bpf_map__map_flags(map);
}

/* Let the object, which is not loaded yet, use the pinned map. */
static int adopt(const char *what, enum shared shared, struct bpf_map *map)
{
	int fd, err = shared_open(what, shared, &fd);

	if (err || fd < 0)
		return err;
	err = same_flags(map, fd) ? bpf_map__reuse_fd(map, fd) : -EMEDIUMTYPE;
	close(fd); /* libbpf made its own copy */
	return err ? pin_unusable(what, pin_path(maps[shared].name, NULL), err) : EXIT_OK;
}

static int pin(const char *what, enum shared shared, struct bpf_map *map)
{
	const char *path = pin_path(maps[shared].name, NULL);

	return pin_exists(path) ? EXIT_OK : pin_make(what, bpf_map__fd(map), path);
}

static int each(const char *what, struct bpf_object *obj,
		int (*act)(const char *what, enum shared shared, struct bpf_map *map))
{
	int err = EXIT_OK;

	for (int i = 0; !err && i < SHARED_MAPS; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, maps[i].name);

		err = map ? act(what, i, map) : EXIT_OK;
	}
	return err;
}

int shared_load(const char *what, struct bpf_object *obj)
{
	int err = each(what, obj, adopt);

	if (!err)
		err = object_load(what, obj);
	return err ?: each(what, obj, pin);
}

/* A ring buffer has at least a page, others an entry; what an index finds stays as it is. */
static int adopt_or_make_small(const char *what, enum shared shared, struct bpf_map *map)
{
	__u32 least = shared == SHARED_EVENTS ? (__u32)sysconf(_SC_PAGESIZE) : 1;
	int err = adopt(what, shared, map);

	if (err || bpf_map__fd(map) >= 0 || maps[shared].shape.max_entries)
		return err;
	err = bpf_map__set_max_entries(map, least);
	return err ? fail_errno(what, maps[shared].name, err) : EXIT_OK;
}

int shared_load_without(const char *what, struct bpf_object *obj)
{
	return each(what, obj, adopt_or_make_small) ?: object_load(what, obj);
}
