// SPDX-License-Identifier: GPL-2.0-only
/* The maps that all controllers share: see shared.h. */
#include <errno.h>
#include <unistd.h>

#include "sys/shared.h"
#include "ccbpf/controllers.h"
#include "ccbpf/event.h"
#include "ccbpf/flow.h"
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

int shared_adopt_one(const char *what, struct bpf_object *obj, enum shared shared)
{
	const char *name = maps[shared].name;
	struct bpf_map *map;
	int fd, err = object_map(what, obj, name, 0, &map);

	if (!err)
		err = shared_open(what, shared, &fd);
	if (err || fd < 0)
		return err;
	err = same_flags(map, fd) ? bpf_map__reuse_fd(map, fd) : -EMEDIUMTYPE;
	close(fd); /* libbpf made its own copy */
	return err ? pin_unusable(what, pin_path(name, NULL), err) : EXIT_OK;
}

int shared_adopt(const char *what, struct bpf_object *obj)
{
	int err = EXIT_OK;

	for (int i = 0; !err && i < SHARED_MAPS; i++)
		err = shared_adopt_one(what, obj, i);
	return err;
}

int shared_pin_one(const char *what, struct bpf_object *obj, enum shared shared)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, maps[shared].name);
	const char *path = pin_path(maps[shared].name, NULL);

	return pin_exists(path) ? EXIT_OK : pin_make(what, bpf_map__fd(map), path);
}

int shared_pin(const char *what, struct bpf_object *obj)
{
	int err = EXIT_OK;

	for (int i = 0; !err && i < SHARED_MAPS; i++)
		err = shared_pin_one(what, obj, i);
	return err;
}
