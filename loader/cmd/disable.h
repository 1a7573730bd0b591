/* SPDX-License-Identifier: GPL-2.0-only */
/* What other commands need of `disable`. */
#ifndef CCBPF_DISABLE_H
#define CCBPF_DISABLE_H

#include "cc/running.h"

/*
 * Disable what is enabled; needs the lock for a change. `*restored`, `*ecn`: the default and
 * net.ipv4.tcp_ecn that are in force again, or NULL. Returns EXIT_OK, or the exit code after saying
 * why not.
 */
int disable_running(const char *what, struct running *running, const char **restored,
		    const char **ecn);

#endif
