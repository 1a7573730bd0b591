/* SPDX-License-Identifier: GPL-2.0-only */
/* The capabilities that this process has. */
#ifndef CCBPF_CAPABILITIES_H
#define CCBPF_CAPABILITIES_H

#include <stdbool.h>

#define CAPABILITIES_NOBODY 65534 /* user and group that own nothing */

/* What they are for. Each needs those of the one before, too. */
enum capabilities {
	CAPABILITIES_READING, /* maps and pins */
	CAPABILITIES_CHANGING, /* what runs */
	CAPABILITIES_FILES, /* and files of root's, such as pins */
	CAPABILITIES_ALL, /* and rules, runs (maps are opened by their ids), other network namespaces */
};

/*
 * The capabilities that this process lacks for that, "cap_bpf, cap_net_admin", or
 * NULL for none. A static buffer.
 */
const char *capabilities_missing(enum capabilities use);

/* What to do about that. */
const char *capabilities_remedy(void);

/*
 * Give up all capabilities but those by which a process reads what is pinned again and again, and
 * the right to get others by a program (no_new_privs). For good. What stays, where it was there:
 *
 *   CAP_BPF           maps, links and pins
 *   CAP_SYS_ADMIN     the maps of rules and of units: a link leads to its program, and a program to
 *                     its maps, by ids, which the kernel opens for nobody else; and it loads the
 *                     iterators over sockets, as cap_perfmon does
 *   CAP_DAC_OVERRIDE  only where the user is not root: the pins are root's, and a pin is opened for
 *                     writing as well
 *   CAP_SYS_PTRACE    only if `by_process`: the pins are found through /proc/PID/root
 *
 * Returns 0 or -errno.
 */
int capabilities_keep_reading(bool by_process);

/*
 * Give up all of them, and the right to get others by a program, for good. Root also becomes the
 * user CAPABILITIES_NOBODY, unless it may not (cap_setuid, cap_setgid). Returns 0 or -errno.
 */
int capabilities_keep_none(void);

#endif
