/* SPDX-License-Identifier: GPL-2.0-only */
/* Control groups of version 2, as the user names them. */
#ifndef CCBPF_RENICE_CONTROL_GROUP_H
#define CCBPF_RENICE_CONTROL_GROUP_H

#include <stdint.h>

/*
 * Find a cgroup by its path, in the file system or from the root of the hierarchy
 * ("/system.slice/backup.service"), or as sys/cgroupword.h says, where a unit or slice must run;
 * `option` is said in errors. Puts out its id, which is its inode. Returns EXIT_OK, or the
 * exit code after saying why not: no cgroup v2, no such cgroup, several units of the name.
 */
int control_group_find(const char *what, const char *option, const char *name, uint64_t *id);

#endif
