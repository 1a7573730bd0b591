/* SPDX-License-Identifier: GPL-2.0-only */
/* Other network namespaces. */
#ifndef CCBPF_NETNS_H
#define CCBPF_NETNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The kernel's cookie of a network namespace, which is never used twice: by the name that
 * `ip netns` gives, a path, or the id of a process in it. Returns 0 or -errno.
 */
int netns_cookie(const char *which, uint64_t *cookie);

/*
 * Whether the namespace with this cookie, which `which` has named, is gone: no process is in it,
 * and it is mounted nowhere (sys/namespaces.h). False also where that cannot be known.
 */
bool netns_is_gone(const char *what, const char *which, uint64_t cookie);

/* The name that `ip netns` has for the namespace with this inode: a text(), or NULL. */
const char *netns_name(ino_t inode);

/*
 * Where something is, behind its name: "" in the namespace of this process, else " in network namespace blue", or the
 * inode in place of a name, as lsns(8) shows it. A text().
 */
const char *netns_place(ino_t inode);

#endif
