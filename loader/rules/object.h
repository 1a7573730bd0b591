/* SPDX-License-Identifier: GPL-2.0-only */
/* A sockops object, from the command into the kernel and to a cgroup. */
#ifndef CCBPF_RULES_OBJECT_H
#define CCBPF_RULES_OBJECT_H

#include <bpf/libbpf.h>

struct sockops {
	const char *name; /* of the object and of its program */
	struct bpf_object *obj;
};

/* Open an embedded object. Returns EXIT_OK, or the exit code after saying why not. */
int sockops_open(const char *what, struct sockops *sockops, const char *name, const char *object,
		 const char *end);

/* A map of it, which must hold values of this size, or NULL after saying that it does not. */
struct bpf_map *sockops_map(const char *what, const struct sockops *sockops, const char *name,
			    size_t value_size);

/* What a data map of it holds when it is loaded, to be changed before; NULL as above. */
void *sockops_initial(const char *what, const struct sockops *sockops, const char *name,
		      size_t size);

/* Use the map behind `fd` in the place of one of its own. */
int sockops_reuse(const char *what, const struct sockops *sockops, const char *name, int fd);

int sockops_load(const char *what, const struct sockops *sockops);

/* The program's descriptor, once it is loaded. */
int sockops_program(const struct sockops *sockops);

/*
 * Attach the program at the cgroup behind `cgroup_fd`, beside those of others, and pin the link.
 * `on` is what an error names.
 */
int sockops_attach(const char *what, const struct sockops *sockops, int cgroup_fd, const char *on,
		   const char *pin);

void sockops_close(struct sockops *sockops);

#endif
