/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The pinned maps of a gateway, which holds back what other hosts receive through a device:
 *
 *   <root>/gateway/<netns>_<ifindex>_out/identity  array of 1, read-only: struct ccbpf_aqm_identity
 *                                        config    array of 1, read-only: struct ccbpf_gateway_config
 *                                        counts    per-CPU array of 1: struct ccbpf_gateway_counts
 *                                        connections  hash: struct ccbpf_gateway_key, and a state that only the
 *                                                  program reads
 *   <root>/gateway/<netns>_<ifindex>_in/identity   the same map as above
 */
#ifndef CCBPF_GATEWAY_H
#define CCBPF_GATEWAY_H

#include "ccbpf/aqm.h"
#include "ccbpf/rule.h"

#define CCBPF_GATEWAY_ABI 1 /* grows with any change to a pinned map's layout */
#define CCBPF_GATEWAY_PREFIXES 8
#define CCBPF_GATEWAY_CONNECTIONS 16384

struct ccbpf_gateway_config {
	__u32 id; /* 1 and up, unique among the gateways of this host: see CCBPF_RECEIVED_BY_GATEWAY */
	__u32 n_hosts, n_remotes; /* up to CCBPF_GATEWAY_PREFIXES; 0: any address */
	__u32 reserved;
	struct ccbpf_prefix hosts[CCBPF_GATEWAY_PREFIXES]; /* behind the gateway: who receives */
	struct ccbpf_prefix remotes[CCBPF_GATEWAY_PREFIXES]; /* beyond the device: who sends */
};

/*   X(name, text); the order is the ABI's */
#define CCBPF_GATEWAY_COUNTS(X)                                                              \
	X(connections, "connections whose beginning was seen")                               \
	X(downloads,                                                                         \
	  "connections among them that became downloads: their window is in the background") \
	X(acks, "segments of downloads that carried a window")                               \
	X(rewritten, "segments among them whose window was lowered")                         \
	X(unstamped, "connections left alone: no TCP timestamps")                            \
	X(ours, "connections left alone: a program of ccbpf on this host holds them")        \
	X(full, "connections left alone: there was no room in the table")                    \
	X(unseen, "data packets left alone: the beginning of their connection was not seen") \
	X(silent, "connections that were forgotten after a long silence")

struct ccbpf_gateway_counts {
#define X(name, text) __u64 name;
	CCBPF_GATEWAY_COUNTS(X)
#undef X
};

/* IPv4 as ::ffff:a.b.c.d. Network byte order. */
struct ccbpf_gateway_key {
	__u32 host[4], remote[4];
	__u16 host_port, remote_port;
};

#endif
