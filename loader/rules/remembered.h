/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sockets that our programs remember, each in the storage of sockets of its own: by the
 * kernel's iterator over such a map (bpf/chosen.bpf.c), or, where the kernel refuses that, by a
 * look at all TCP sockets of all network namespaces (bpf/chosen_tcp.bpf.c).
 */
#ifndef CCBPF_REMEMBERED_H
#define CCBPF_REMEMBERED_H

#include <stdbool.h>
#include <stddef.h>

#include "ccbpf/rule.h"

/* A map to be walked; the first member of what the caller knows of it. */
struct remembered {
	int fd;
};

/*
 * Call `each` for every socket in these `n` maps, which lie `size` bytes apart. It may get one
 * twice. What cannot be read is left out. Returns false where the kernel gives no iterator to this
 * process.
 */
bool remembered_each(const struct remembered *maps, size_t n, size_t size,
		     void (*each)(const struct remembered *map,
				  const struct ccbpf_chosen_record *record));

#endif
