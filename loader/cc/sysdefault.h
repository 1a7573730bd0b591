/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The default controller of this network namespace:
 * net.ipv4.tcp_congestion_control. What was there before `enable --default` is
 * remembered (sys/borrowed.h).
 */
#ifndef CCBPF_SYSDEFAULT_H
#define CCBPF_SYSDEFAULT_H

#include "cc/controllers.h"

/*
 * The default controller's name now ("" where it cannot be read). In a static
 * buffer.
 */
const char *sysdefault_now(void);

/*
 * What will be restored, or NULL where nothing is remembered (or for another
 * namespace). A static buffer.
 */
const char *sysdefault_previous(void);

/* Whether the kernel lists the name as available. */
bool sysdefault_available(const char *name);

/*
 * Make `c` the default and remember what was. Returns EXIT_OK, or the exit code
 * after saying why not.
 */
int sysdefault_set(const char *what, const struct controller *c);

/*
 * `c` is about to go: if it is the default, restore what was remembered.
 * Returns the name restored, or NULL. A default that somebody changed since is
 * left alone.
 */
const char *sysdefault_release(const struct controller *c);

/*
 * The same where a controller went in another way: its pins were removed by hand.
 * `any`: others are enabled. Returns whether something is still remembered for
 * this namespace.
 */
bool sysdefault_settle(bool any);

#endif
