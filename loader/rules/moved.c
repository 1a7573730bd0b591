// SPDX-License-Identifier: GPL-2.0-only
/* The program that holds what `renice --download` has moved: see moved.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <unistd.h>

#include "ccbpf/rule.h"
#include "out/errors.h"
#include "out/json.h"
#include "rules/moved.h"
#include "rules/object.h"
#include "rules/remembered.h"
#include "rules/windows.h"
#include "sys/attachment.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "sys/shared.h"

#define MAP_MOVED ".data.moved"
#define MAP_RECEIVES "receives"
#define MAP_FLOWS "flows"

static const struct map_shape moved_shape =
	ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_moved));
static const struct map_shape receives_shape = { BPF_MAP_TYPE_SK_STORAGE, sizeof(int), 0, 0 };
static const struct map_shape flows_shape = { BPF_MAP_TYPE_HASH, sizeof(__u64),
					      sizeof(struct ccbpf_flow), 0 };

static const char *link_path(void)
{
	return pin_path(MOVED_DIR, PIN_LINK);
}

/* The program, or -errno: -EMEDIUMTYPE where it is of another layout. `*attached`: it is. */
static int open_program(bool *attached)
{
	struct ccbpf_moved moved;
	uint64_t cgroup;
	int fd = sockops_at(link_path(), &cgroup), err;

	*attached = cgroup;
	if (fd < 0)
		return fd;
	err = map_take_value(sockops_open_map(fd, MAP_MOVED, &moved_shape), &moved);
	if (!err && moved.abi != CCBPF_RULE_ABI)
		err = -EMEDIUMTYPE;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int open_maps(struct moved *out, bool *attached)
{
	int fd = open_program(attached);

	*out = (struct moved)MOVED_NONE;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	out->receives_fd = sockops_open_map(fd, MAP_RECEIVES, &receives_shape);
	out->flows_fd = sockops_open_map(fd, MAP_FLOWS, &flows_shape);
	close(fd);
	if (out->receives_fd >= 0 && out->flows_fd >= 0)
		return 0;
	moved_close(out);
	return -EMEDIUMTYPE;
}

int moved_open(struct moved *out)
{
	bool attached;

	return open_maps(out, &attached);
}

void moved_close(struct moved *moved)
{
	if (moved->receives_fd >= 0)
		close(moved->receives_fd);
	if (moved->flows_fd >= 0)
		close(moved->flows_fd);
	*moved = (struct moved)MOVED_NONE;
}

/* Write whether it goes. Returns 0 or -errno. */
static int write_opening(__u32 opening)
{
	struct ccbpf_moved moved = { .abi = CCBPF_RULE_ABI, .opening = opening };
	__u32 zero = 0;
	bool attached;
	int program = open_program(&attached), fd, err = 0;

	if (program < 0)
		return program;
	fd = sockops_open_map(program, MAP_MOVED, &moved_shape);
	if (fd < 0 || bpf_map_update_elem(fd, &zero, &moved, BPF_ANY))
		err = fd < 0 ? fd : -errno;
	if (fd >= 0)
		close(fd);
	close(program);
	return err;
}

static int load(const char *what, const struct moved *before, struct bpf_object **obj)
{
	int err = object_open(what, "rx_moved", ccbpf_object_rx_moved, ccbpf_object_rx_moved_end,
			      obj);

	if (!err && before->receives_fd >= 0)
		err = object_reuse(what, *obj, MAP_RECEIVES, before->receives_fd);
	return err ?: shared_load(what, *obj);
}

int moved_make(const char *what, struct moved *out)
{
	struct bpf_object *obj = NULL;
	bool attached;
	int err = open_maps(out, &attached);

	if (!err && out->receives_fd >= 0 && attached)
		err = write_opening(0);
	if (err)
		return pin_unusable(what, link_path(), err);
	if (out->receives_fd >= 0 && attached)
		return EXIT_OK;
	err = load(what, out, &obj);
	if (!err)
		err = sockops_attach_root(what, obj, MOVED_DIR);
	bpf_object__close(obj);
	moved_close(out);
	if (err)
		return err;
	err = moved_open(out);
	return err ? pin_unusable(what, link_path(), err) : EXIT_OK;
}

bool moved_is_pinned(void)
{
	return pin_exists(link_path());
}

bool moved_is_going(void)
{
	struct ccbpf_moved moved = { 0 };
	bool attached;
	int fd = open_program(&attached);

	if (fd < 0)
		return false;
	if (map_take_value(sockops_open_map(fd, MAP_MOVED, &moved_shape), &moved))
		moved.opening = 0;
	close(fd);
	return moved.opening;
}

/* What are_remembered() asks for: the first member is that of remembered_each(). */
struct seen {
	struct remembered map;
	bool *any;
};

static void see(const struct remembered *map, const struct ccbpf_chosen_record *record)
{
	(void)record;
	*((const struct seen *)map)->any = true;
}

static bool are_remembered(int receives_fd)
{
	bool any = false;

	remembered_each(&(struct seen){ { receives_fd }, &any }.map, 1, sizeof(struct seen), see);
	return any;
}

bool moved_holds(void)
{
	struct windows windows = windows_at(link_path(), false);
	bool holds = windows_are_held(&windows, CCBPF_RECEIVED_BY_RENICE) ||
		     (windows.receives_fd >= 0 && are_remembered(windows.receives_fd));

	windows_close(&windows);
	return holds;
}

void moved_release(const char *what)
{
	bool foreign = write_opening(1) == -EMEDIUMTYPE;
	struct windows windows = windows_at(link_path(), foreign);

	windows_open(&windows, NULL, 0);
	windows_wait(what, &windows, CCBPF_RECEIVED_BY_RENICE);
	windows_close(&windows);
}

int moved_remove(const char *what, struct json_object *removed)
{
	bool there = moved_is_pinned();
	int err = pin_remove(link_path());

	rmdir(pin_path(MOVED_DIR, NULL)); /* refused unless empty */
	if (err)
		return fail_errno(what, link_path(), err);
	if (there && removed)
		json_object_array_add(removed, json_text(link_path()));
	return EXIT_OK;
}

void moved_collect_foreign(struct json_object *foreign)
{
	sockops_collect_foreign(MOVED_DIR, foreign);
}
