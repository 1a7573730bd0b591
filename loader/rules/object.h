/* SPDX-License-Identifier: GPL-2.0-only */
/* The one program of a sockops object that is loaded, on its way to a cgroup. */
#ifndef CCBPF_RULES_OBJECT_H
#define CCBPF_RULES_OBJECT_H

#include <bpf/libbpf.h>

/* Its descriptor. */
int sockops_program(const struct bpf_object *obj);

/*
 * Attach it at the cgroup behind `cgroup_fd`, beside those of others, and pin the link. `on` is
 * what an error names. Returns EXIT_OK, or the exit code after saying why not.
 */
int sockops_attach(const char *what, const struct bpf_object *obj, int cgroup_fd, const char *on,
		   const char *pin);

#endif
