/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ECN of this network namespace: net.ipv4.tcp_ecn, which says whether connections
 * from here ask for it. What was there before `enable --ecn` is remembered
 * (sysrecord.h) until the last controller that wants ECN is disabled.
 */
#ifndef CCBPF_SYSECN_H
#define CCBPF_SYSECN_H

#include "controllers.h"

/* Do connections from here ask for ECN as RFC 3168 has it? */
bool sysecn_asks(void);

/* "net.ipv4.tcp_ecn=2", for messages: a text(). */
const char *sysecn_text(void);

/* What to do where it does not ask: a constant. */
const char *sysecn_remedy(void);

/*
 * Ask for it from now on, and remember what was. Returns EXIT_OK, or the exit
 * code after saying why not.
 */
int sysecn_set(const char *what);

/*
 * `c` is about to go: if it is the last one that wants ECN, restore what was
 * remembered. Returns the value restored, or NULL. A value that somebody changed
 * since is left alone.
 */
const char *sysecn_release(const struct controller *c);

#endif
