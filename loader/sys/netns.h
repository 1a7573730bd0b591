/* SPDX-License-Identifier: GPL-2.0-only */
/* Other network namespaces. */
#ifndef CCBPF_NETNS_H
#define CCBPF_NETNS_H

#include <stdint.h>

/*
 * The kernel's cookie of a network namespace, which is never used twice: by the name that
 * `ip netns` gives, a path, or the id of a process in it. Returns 0 or -errno.
 */
int netns_cookie(const char *which, uint64_t *cookie);

#endif
