/* SPDX-License-Identifier: GPL-2.0-only */
/* What nf_tcp's chirps need of this host, besides ECN: see cmd/check.c. */
#ifndef CCBPF_CHIRPS_H
#define CCBPF_CHIRPS_H

/*
 * Try to give a socket the memory that a flow's chirps need. Returns 0 or -errno:
 * -ENOMEM on x86 without cmpxchg16b since Linux 6.19.
 */
int chirps_try_storage(void);

/*
 * The devices of this network namespace that have the qdisc fq, "eth0, eth1", or NULL
 * for none. fq chooses when packets leave, and chirps have to.
 */
const char *chirps_fq_devices(void);

#endif
