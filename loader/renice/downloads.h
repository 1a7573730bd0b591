/* SPDX-License-Identifier: GPL-2.0-only */
/* The downloads that `ccbpf renice --download` holds (rules/moved.h): whether there are any, and
 * their end. */
#ifndef CCBPF_RENICE_DOWNLOADS_H
#define CCBPF_RENICE_DOWNLOADS_H

#include <stdbool.h>

/* Whether there is one, or may be. Needs a lock. */
bool downloads_are_held(void);

/* Let all go: their windows are open. Takes a moment where a socket is in a network namespace that
 * cannot be found. Needs the lock for a change. */
void downloads_release(const char *what);

#endif
