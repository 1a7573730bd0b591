// SPDX-License-Identifier: GPL-2.0-only
/* A sockops object on its way to a cgroup: see object.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "rules/object.h"
#include "sys/attachment.h"
#include "sys/cgroup.h"
#include "sys/pins.h"
#include "util/text.h"

#define MAPS_MOST 32 /* of a program */

int sockops_program(const struct bpf_object *obj)
{
	return bpf_program__fd(bpf_object__next_program(obj, NULL));
}

/* "program 57 (its_name)", which the sockets of the cgroup meet, its own or that of one above it;
 * NULL where there is not exactly one. A text(). */
static const char *other_program(int cgroup_fd)
{
	__u32 id, n = 1, size;
	struct bpf_prog_info info = { 0 };
	int fd;

	if (bpf_prog_query(cgroup_fd, BPF_CGROUP_SOCK_OPS, BPF_F_QUERY_EFFECTIVE, NULL, &id, &n) ||
	    !n)
		return NULL;
	fd = bpf_prog_get_fd_by_id(id);
	if (fd < 0)
		return NULL;
	size = sizeof(info);
	if (bpf_prog_get_info_by_fd(fd, &info, &size))
		*info.name = '\0';
	close(fd);
	return text("program %u (%s)", id, *info.name ? info.name : "without a name");
}

static int not_attached(const char *what, int cgroup_fd, const char *on, int err)
{
	if (err != EPERM)
		return fail_errno(what, on, err);
	return FAIL(
		EXIT_FAILED, .what = what, .on = on,
		.why = text(
			"the kernel refuses a program there: %s of sock_ops, at this cgroup or at one above it, allows no others",
			other_program(cgroup_fd) ?: "another program"),
		.remedy =
			"`bpftool cgroup tree` shows where it is: attach it with the flag `multi`, or detach it");
}

int sockops_attach(const char *what, const struct bpf_object *obj, int cgroup_fd, const char *on,
		   const char *pin)
{
	int link = bpf_link_create(sockops_program(obj), cgroup_fd, BPF_CGROUP_SOCK_OPS, NULL);
	int err;

	if (link < 0)
		return not_attached(what, cgroup_fd, on, errno);
	err = pin_make(what, link, pin);
	close(link);
	return err;
}

int sockops_attach_root(const char *what, const struct bpf_object *obj, const char *dir)
{
	const char *on = "the root cgroup", *link = pin_path(dir, PIN_LINK);
	int err = pin_remove(link), fd;

	if (err)
		return fail_errno(what, link, err);
	err = pin_make_dir(what, pin_path(dir, NULL));
	if (!err)
		err = cgroup_require(what, on);
	if (err)
		return err;
	fd = cgroup_open("/");
	if (fd < 0)
		return fail_errno(what, on, fd);
	err = sockops_attach(what, obj, fd, on, link);
	close(fd);
	return err;
}

int sockops_behind(int link_fd, uint64_t *cgroup)
{
	struct bpf_link_info info = { 0 };
	__u32 size = sizeof(info);
	int fd;

	if (bpf_link_get_info_by_fd(link_fd, &info, &size))
		return -errno;
	if (info.type != BPF_LINK_TYPE_CGROUP || info.cgroup.attach_type != BPF_CGROUP_SOCK_OPS)
		return -EMEDIUMTYPE;
	*cgroup = info.cgroup.cgroup_id;
	fd = bpf_prog_get_fd_by_id(info.prog_id);
	return fd < 0 ? -errno : fd;
}

int sockops_at(const char *pin, uint64_t *cgroup)
{
	int fd = pin_open(pin, PIN_KIND_LINK), program;

	*cgroup = 0;
	if (fd < 0)
		return fd;
	program = sockops_behind(fd, cgroup);
	close(fd);
	return program;
}

int sockops_open_map(int program_fd, const char *name, const struct map_shape *shape)
{
	__u32 ids[MAPS_MOST] = { 0 };
	struct bpf_prog_info info = { .nr_map_ids = MAPS_MOST, .map_ids = (uintptr_t)ids };
	__u32 size = sizeof(info);

	if (bpf_prog_get_info_by_fd(program_fd, &info, &size))
		return -errno;
	for (unsigned int i = 0; i < info.nr_map_ids && i < MAPS_MOST; i++) {
		struct bpf_map_info map = { 0 };
		int fd = bpf_map_get_fd_by_id(ids[i]);

		if (fd < 0)
			return -errno;
		size = sizeof(map);
		if (!bpf_map_get_info_by_fd(fd, &map, &size) && !strcmp(map.name, name) &&
		    pin_is_shape(&map, shape))
			return fd;
		close(fd);
	}
	return -EMEDIUMTYPE;
}

static bool is_link(void *data, const char *name)
{
	(void)data;
	return !strcmp(name, PIN_LINK);
}

void sockops_collect_foreign(const char *dir, struct json_object *foreign)
{
	foreign_in(dir, is_link, NULL, foreign);
}
