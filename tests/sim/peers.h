/* SPDX-License-Identifier: GPL-2.0-only */
/* Congestion controllers of the kernel, as peers: reno (RFC 5681) and cubic (RFC 9438, with HyStart). */
#ifndef CCBPF_SIM_PEERS_H
#define CCBPF_SIM_PEERS_H

#include "flow.h"

const struct controller *peer_find(const char *name); /* NULL: there is none of that name */

#endif
