/* SPDX-License-Identifier: GPL-2.0-only */
/* Which file gives a sysctl its value at boot: the kernel's parameters, those of sysctl.d(5), and tuned's profiles. */
#ifndef CCBPF_SYSCTLFILES_H
#define CCBPF_SYSCTLFILES_H

#define SYSCTLFILES_VALUE 256 /* bytes of a value with its NUL; a longer one is cut */

/*
 * The file that sets the sysctl `name` (net.ipv4.…) last, and the value that it sets. Returns its
 * path, a text(), or NULL: no file that can be read sets it.
 */
const char *sysctlfiles_find(const char *name, char value[SYSCTLFILES_VALUE]);

#endif
