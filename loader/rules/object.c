// SPDX-License-Identifier: GPL-2.0-only
/* A sockops object on its way to a cgroup: see object.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <unistd.h>

#include "out/errors.h"
#include "rules/object.h"
#include "sys/pin.h"

int sockops_program(const struct bpf_object *obj)
{
	return bpf_program__fd(bpf_object__next_program(obj, NULL));
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

int sockops_attach(const char *what, const struct bpf_object *obj, int cgroup_fd, const char *on,
		   const char *pin)
{
	int link = bpf_link_create(sockops_program(obj), cgroup_fd, BPF_CGROUP_SOCK_OPS, NULL);
	int err;

	if (link < 0)
		return not_attached(what, on, errno);
	err = pin_make(what, link, pin);
	close(link);
	return err;
}
