/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes, as /proc has them. */
#ifndef CCBPF_PROCESS_H
#define CCBPF_PROCESS_H

#include <sys/types.h>

/* The parent of a process, 0: none that can be seen. */
pid_t process_parent(pid_t pid);

#endif
