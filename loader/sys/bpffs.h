/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF file system, on /sys/fs/bpf. `ip netns exec` hides it behind a /sys of
 * its own: then it is found, or mounted, where the process that called us sees it.
 */
#ifndef CCBPF_BPFFS_H
#define CCBPF_BPFFS_H

#include <stdbool.h>

#define BPFFS "/sys/fs/bpf"

/* 0; -ENOTSUP where the path lies on another file system; or -errno. */
int bpffs_at(const char *path);

/* Whether the path lies below /sys/fs/bpf. */
bool bpffs_is_above(const char *path);

/*
 * What must stand before the path so that this process reaches it: "", or
 * /proc/<pid>/root.
 */
const char *bpffs_prefix(const char *path);

/*
 * Mount it where it is missing, as bpftool does: readable by root only. It may
 * have another prefix then. Returns EXIT_OK, or the exit code after saying why not.
 */
int bpffs_mount(const char *what);

#endif
