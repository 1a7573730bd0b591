/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What holds the registration of a controller in the kernel: a struct_ops link, or, on
 * kernels without links, the struct_ops map itself.
 */
#ifndef CCBPF_REGISTRATION_H
#define CCBPF_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>

enum registration_state {
	REGISTRATION_FOREIGN, /* it holds something else */
	REGISTRATION_NONE, /* the map is not registered */
	REGISTRATION_DETACHED, /* somebody detached the link */
	REGISTRATION_HELD,
};

struct registration {
	enum registration_state state;
	bool by_link;
	uint32_t link_id; /* 0 without links */
	uint32_t ops_id; /* the struct_ops map */
};

/*
 * What the link, or the map, behind `fd` holds of the controller `name`. Return 0,
 * or -errno where that cannot be asked.
 */
int registration_of_link(int fd, const char *name, struct registration *out);
int registration_of_map(int fd, const char *name, struct registration *out);

#endif
