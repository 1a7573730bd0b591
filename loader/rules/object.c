// SPDX-License-Identifier: GPL-2.0-only
/* A sockops object on its way to a cgroup: see object.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <unistd.h>

#include "out/errors.h"
#include "rules/object.h"
#include "sys/objects.h"
#include "sys/pin.h"
#include "util/text.h"

int sockops_open(const char *what, struct sockops *sockops, const char *name, const char *object,
		 const char *end)
{
	sockops->name = name;
	return object_open(what, name, object, end, &sockops->obj);
}

struct bpf_map *sockops_map(const char *what, const struct sockops *sockops, const char *name,
			    size_t value_size)
{
	struct bpf_map *map;

	return object_map(what, sockops->obj, name, value_size, &map) ? NULL : map;
}

void *sockops_initial(const char *what, const struct sockops *sockops, const char *name,
		      size_t size)
{
	struct bpf_map *map = sockops_map(what, sockops, name, size);

	return map ? object_initial(map) : NULL;
}

int sockops_reuse(const char *what, const struct sockops *sockops, const char *name, int fd)
{
	struct bpf_map *map = bpf_object__find_map_by_name(sockops->obj, name);
	int err = map ? bpf_map__reuse_fd(map, fd) : -ENOENT;

	return err ? fail_errno(what, text("the map %s of %s", name, sockops->name), err) : EXIT_OK;
}

int sockops_load(const char *what, const struct sockops *sockops)
{
	return object_load(what, sockops->obj);
}

int sockops_program(const struct sockops *sockops)
{
	return bpf_program__fd(bpf_object__next_program(sockops->obj, NULL));
}

static int not_attached(const char *what, const char *on, int err)
{
	if (err == EPERM)
		return FAIL(
			EXIT_FAILED, .what = what, .on = on,
			.why = "the kernel refuses a program there: above it another one is attached that allows no others",
			.remedy = "`bpftool cgroup tree` shows it: it has no flag `multi`");
	return fail_errno(what, on, err);
}

int sockops_attach(const char *what, const struct sockops *sockops, int cgroup_fd, const char *on,
		   const char *pin)
{
	int link = bpf_link_create(sockops_program(sockops), cgroup_fd, BPF_CGROUP_SOCK_OPS, NULL);
	int err;

	if (link < 0)
		return not_attached(what, on, errno);
	err = pin_make(what, link, pin);
	close(link);
	return err;
}

void sockops_close(struct sockops *sockops)
{
	bpf_object__close(sockops->obj);
	sockops->obj = NULL;
}
