/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes, as /proc has them. */
#ifndef CCBPF_PROCESS_H
#define CCBPF_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The parent of a process, 0: none that can be seen. */
pid_t process_parent(pid_t pid);

/*
 * Call `each` with the inode of every socket among the descriptors of a process. Returns 0, or
 * -errno: -ENOENT where there is no such process.
 */
int process_sockets(pid_t pid, void (*each)(void *data, pid_t pid, uint64_t inode), void *data);

/* The name of a process, a text(), "" where it is gone. */
const char *process_name(pid_t pid);

#endif
