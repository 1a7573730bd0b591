// SPDX-License-Identifier: GPL-2.0-only
/* What is attached to the kernel: see attachment.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "out/json.h"
#include "sys/attachment.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "util/text.h"

#define IDENTITY 0 /* among the maps */
#define HOLDS 2 /* among the pins: link and what is there instead */

const char *attachment_path(const struct attachment *a, const char *pin)
{
	return pin_path(a->dir, pin);
}

static const char *name_of(const struct attachment *a, unsigned int map, bool as_new)
{
	return as_new ? text("%s_new", a->maps[map].pin) : a->maps[map].pin;
}

/* The names that are ours in its directory, in the order of their removal; NULL behind the last. */
static const char *own_name(const struct attachment *a, unsigned int i)
{
	unsigned int map = a->kind->n_maps - 1 - (i - HOLDS) / 2;

	if (i < HOLDS)
		return i && a->kind->instead ? a->kind->instead : PIN_LINK;
	return map < a->kind->n_maps ? name_of(a, map, i % 2) : NULL;
}

static bool is_ours(void *a, const char *name)
{
	const char *own;

	for (unsigned int i = 0; (own = own_name(a, i)); i++)
		if (strcmp(name, own) == 0)
			return true;
	return false;
}

/* The next entry of a directory that is neither itself nor its parent, or NULL. */
static const char *next_name(DIR *dir)
{
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			return entry->d_name;
	return NULL;
}

/* Whether an interrupted ccbpf left the directory: one of our pins is in it, or nothing. */
static bool has_rests(struct attachment *a)
{
	DIR *dir = opendir(attachment_path(a, NULL));
	bool empty = true, ours = false;
	const char *name;

	while (dir && !ours && (name = next_name(dir))) {
		empty = false;
		ours = is_ours(a, name);
	}
	if (dir)
		closedir(dir);
	return dir && (empty || ours);
}

/* The id of the program behind `fd`, or 0 where that is not one of this kind. */
static uint32_t program_id(const struct attachment_kind *kind, int fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);
	bool ours = !bpf_prog_get_info_by_fd(fd, &info, &size) && info.type == kind->program_type &&
		    !strncmp(info.name, kind->program, sizeof(info.name) - 1);

	return ours ? info.id : 0;
}

/* Whether the program of a link is of this kind. Without CAP_SYS_ADMIN that is not known: then
 * it is taken for ours. */
static bool is_our_program(const struct attachment_kind *kind, uint32_t id)
{
	int fd = bpf_prog_get_fd_by_id(id);
	bool ours = fd < 0 || program_id(kind, fd);

	if (fd >= 0)
		close(fd);
	return ours;
}

/* What holds it, which is open. Returns 0 or -errno. */
static int ask_hold(struct attachment *a)
{
	const struct attachment_kind *kind = a->kind;
	struct bpf_link_info info = { 0 };
	__u32 size = sizeof(info);
	int err;

	if (a->by_link && bpf_link_get_info_by_fd(a->hold_fd, &info, &size))
		return -errno;
	if (a->by_link && info.type != kind->link_type)
		return 0;
	a->link_id = info.id;
	if (kind->program)
		a->held_id = a->by_link ? info.prog_id : program_id(kind, a->hold_fd);
	if (kind->program && (!a->held_id || (a->by_link && !is_our_program(kind, a->held_id))))
		return 0;
	err = kind->read(a, a->by_link ? &info : NULL);
	a->ours = a->state != ATTACHMENT_UNREADABLE;
	return err;
}

/* The state that the pins tell. Returns 0 or -errno; `*path`: of which pin. */
static int read_hold(struct attachment *a, const char **path)
{
	*path = attachment_path(a, PIN_LINK);
	a->hold_fd = pin_open(*path, PIN_KIND_LINK);
	a->by_link = a->hold_fd != -ENOENT;
	if (!a->by_link && a->kind->instead) {
		*path = attachment_path(a, a->kind->instead);
		a->hold_fd = pin_open(*path, a->kind->instead_kind);
	}
	if (a->hold_fd >= 0)
		return ask_hold(a);
	if (a->hold_fd == -ENOENT)
		a->state = a->kind->strict || has_rests(a) ? ATTACHMENT_STALE : ATTACHMENT_ABSENT;
	else if (a->hold_fd != -EMEDIUMTYPE)
		return a->hold_fd;
	return 0;
}

/* Returns 0 or -errno. */
static int read_identity(struct attachment *a, void *identity)
{
	int err = attachment_read_map(a, IDENTITY, identity);

	if (!err && memcmp(identity, &a->kind->abi, sizeof(a->kind->abi)))
		err = -EMEDIUMTYPE;
	if (!err)
		return 0;
	memset(identity, 0, a->maps[IDENTITY].shape.value_size);
	if (err != -ENOENT && err != -EMEDIUMTYPE)
		return err;
	if (a->kind->strict)
		a->state = err == -ENOENT ? ATTACHMENT_STALE : ATTACHMENT_UNREADABLE;
	a->identity_err = err;
	return 0;
}

int attachment_open(const char *what, struct attachment *a, void *identity)
{
	const char *path = attachment_path(a, NULL);
	int err = 0;

	a->hold_fd = -1;
	a->state = pin_exists(path) ? ATTACHMENT_UNREADABLE : ATTACHMENT_ABSENT;
	if (pin_is_dir(path))
		err = read_hold(a, &path);
	if (!err && (a->state == ATTACHMENT_HELD || (a->state && a->kind->strict))) {
		path = attachment_path(a, PIN_IDENTITY);
		err = read_identity(a, identity);
	}
	if (!err)
		return EXIT_OK;
	attachment_close(a);
	return fail_errno(what, path, err);
}

void attachment_close(struct attachment *a)
{
	if (a->hold_fd >= 0)
		close(a->hold_fd);
	a->hold_fd = -1;
}

/* Whether the map behind `fd` is older than the struct_ops map that is held. */
static bool is_in_force(const struct attachment *a, int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	return !bpf_map_get_info_by_fd(fd, &info, &size) && info.id < a->held_id;
}

int attachment_open_map(const struct attachment *a, unsigned int map)
{
	const struct map_shape *shape = &a->maps[map].shape;
	int fd = -1;

	if (a->kind->reloads)
		fd = pin_open_map(attachment_path(a, name_of(a, map, true)), shape);
	if (fd >= 0 && is_in_force(a, fd))
		return fd;
	if (fd >= 0)
		close(fd);
	return pin_open_map(attachment_path(a, name_of(a, map, false)), shape);
}

int attachment_read_map(const struct attachment *a, unsigned int map, void *value)
{
	return map_take_value(attachment_open_map(a, map), value);
}

int attachment_pin_map(const char *what, const struct attachment *a, const struct bpf_object *obj,
		       unsigned int map, bool as_new)
{
	struct bpf_map *found;
	int err = object_map(what, obj, a->maps[map].name, a->maps[map].shape.value_size, &found);

	if (err)
		return err;
	return pin_make(what, bpf_map__fd(found), attachment_path(a, name_of(a, map, as_new)));
}

int attachment_pin_maps(const char *what, const struct attachment *a, const struct bpf_object *obj)
{
	int err = pin_make_dir(what, attachment_path(a, NULL));

	for (unsigned int i = 0; !err && i < a->kind->n_maps; i++)
		err = attachment_pin_map(what, a, obj, i, false);
	return err;
}

int attachment_pin_hold(const char *what, struct attachment *a, int fd, bool by_link)
{
	const char *path = attachment_path(a, by_link ? PIN_LINK : a->kind->instead);
	int err;

	a->hold_fd = fd;
	a->by_link = by_link;
	err = ask_hold(a);
	return err ? fail_errno(what, path, err) : pin_make(what, fd, path);
}

void attachment_settle(const struct attachment *a)
{
	if (!a->kind->reloads || a->state != ATTACHMENT_HELD)
		return;
	for (unsigned int i = 0; i < a->kind->n_maps; i++) {
		const char *new = attachment_path(a, name_of(a, i, true));
		int fd = pin_open(new, PIN_KIND_MAP);

		if (fd >= 0 && is_in_force(a, fd))
			rename(new, attachment_path(a, name_of(a, i, false)));
		else if (fd >= 0 || fd == -EMEDIUMTYPE)
			pin_remove(new);
		if (fd >= 0)
			close(fd);
	}
}

int attachment_remove(const char *what, struct attachment *a)
{
	int err = a->kind->release ? a->kind->release(what, a) : EXIT_OK;
	const char *name, *path;

	if (err)
		return err;
	for (unsigned int i = 0; (name = own_name(a, i)); i++) {
		if (i == HOLDS && a->by_link && a->ours)
			bpf_link_detach(a->hold_fd); /* struct_ops: 6.10; else closing does it */
		if (i == HOLDS)
			attachment_close(a);
		path = attachment_path(a, name);
		err = pin_remove(path);
		if (err)
			return fail_errno(what, path, err);
	}
	path = attachment_path(a, NULL);
	err = pin_remove_dir(path);
	if (err && (a->kind->strict || (err != -ENOTEMPTY && err != -EEXIST)))
		return fail_errno(what, path, err);
	a->state = ATTACHMENT_ABSENT;
	return EXIT_OK;
}

bool attachment_goes(const struct attachment *a, bool all)
{
	return a->state == ATTACHMENT_STALE || a->state == ATTACHMENT_GONE ||
	       a->state == ATTACHMENT_DETACHED || (all && a->state != ATTACHMENT_ABSENT);
}

int attachment_sweep(const char *what, struct attachment *a, bool all, struct json_object *removed)
{
	bool goes = attachment_goes(a, all);
	int err = goes ? attachment_remove(what, a) : EXIT_OK;

	if (goes && !err && removed)
		json_object_array_add(removed, json_text(attachment_path(a, NULL)));
	return err;
}

void foreign_in(const char *dir, bool (*is_ours)(void *data, const char *name), void *data,
		struct json_object *foreign)
{
	DIR *open = opendir(pin_path(dir, NULL));
	const char *name;

	while (open && (name = next_name(open)))
		if (!is_ours(data, name))
			json_object_array_add(foreign, json_text(dir ? pin_path(dir, name)
								     : pin_path(name, NULL)));
	if (open)
		closedir(open);
}

void attachment_foreign(struct attachment *a, struct json_object *foreign)
{
	foreign_in(a->dir, is_ours, a, foreign);
}
