/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ECN of this network namespace: net.ipv4.tcp_ecn, which says whether connections
 * from here ask for it. What was there before `enable --ecn` is remembered
 * (sys/borrowed.h) until the last controller that wants ECN is disabled.
 */
#ifndef CCBPF_SYSECN_H
#define CCBPF_SYSECN_H

#include "cc/controllers.h"

enum sysecn {
	SYSECN_NONE, /* connections from here do not ask */
	SYSECN_ACCURATE, /* with some peers AccECN is agreed (RFC 9768) */
	SYSECN_CLASSIC, /* RFC 3168, in both directions */
};

/* What this namespace's connections agree on, where the peer knows all of it. */
enum sysecn sysecn_now(void);

/* What they lack for a controller whose signal is a mark: a constant, "" if nothing. */
const char *sysecn_lacks(void);

/* "net.ipv4.tcp_ecn=2", for messages: a text(). */
const char *sysecn_text(void);

/* What to do about it: a constant. */
const char *sysecn_remedy(void);

/* Its value now, "" where it cannot be read; and what will be restored, or NULL. Static buffers. */
const char *sysecn_value(void);
const char *sysecn_previous(void);

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

/*
 * The same where the last one went in another way: its pins were removed by hand.
 * Returns whether something is still remembered for this namespace.
 */
bool sysecn_settle(void);

/* Restore what was remembered though such a controller stays. Returns what it restored, or NULL. */
const char *sysecn_give_back(void);

#endif
