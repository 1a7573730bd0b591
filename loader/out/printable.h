/* SPDX-License-Identifier: GPL-2.0-only */
/* Text that is safe to print on a terminal. */
#ifndef CCBPF_PRINTABLE_H
#define CCBPF_PRINTABLE_H

/*
 * In place: what is no UTF-8 and what a terminal would obey, a line's end
 * included, becomes "?". Names of devices, files and arguments, and strings in
 * maps, may hold any byte. Returns the string.
 */
char *make_printable(char *string);

#endif
