/* SPDX-License-Identifier: GPL-2.0-only */
/* The one program of a sockops object: on its way to a cgroup, and there. */
#ifndef CCBPF_RULES_OBJECT_H
#define CCBPF_RULES_OBJECT_H

#include <bpf/libbpf.h>
#include <json-c/json.h>

#include "sys/pin.h"

/* Its descriptor. */
int sockops_program(const struct bpf_object *obj);

/*
 * Attach it at the cgroup behind `cgroup_fd`, beside those of others, and pin the link. `on` is
 * what an error names. Returns EXIT_OK, or the exit code after saying why not.
 */
int sockops_attach(const char *what, const struct bpf_object *obj, int cgroup_fd, const char *on,
		   const char *pin);

/*
 * The same at the root cgroup, with the link as the pin `PIN_LINK` of <root>/`dir`, in place of one
 * that is there.
 */
int sockops_attach_root(const char *what, const struct bpf_object *obj, const char *dir);

/*
 * The program that a link holds at a cgroup, whose id is put out: 0 where it was detached, or the
 * cgroup is gone. Returns its descriptor, or -errno: -EMEDIUMTYPE where it is another sort of link.
 */
int sockops_behind(int link_fd, uint64_t *cgroup);

/* The same of a link that is pinned; without one, an error as pin_open() and the id 0. */
int sockops_at(const char *pin, uint64_t *cgroup);

/* A map that a program uses, by its name. Returns its descriptor, or an error as pin_open_map(). */
int sockops_open_map(int program_fd, const char *name, const struct map_shape *shape);

/* Add what lies below <root>/`dir` besides the link, the one pin of ours there. */
void sockops_collect_foreign(const char *dir, struct json_object *foreign);

#endif
