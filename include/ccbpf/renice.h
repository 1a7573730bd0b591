/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What `ccbpf renice` asks of its iterators (bpf/renice.bpf.c, and bpf/renice_rx.bpf.c for downloads), and their answer: one
 * record for each socket that was selected. None of these maps is pinned.
 *
 * Addresses are compared as IPv6: that of an IPv4 peer is ::ffff:a.b.c.d, also where the socket is of IPv4.
 */
#ifndef CCBPF_RENICE_H
#define CCBPF_RENICE_H

#include "ccbpf/types.h"

#define CCBPF_RENICE_NAME_LEN 16 /* TCP_CA_NAME_MAX */

enum ccbpf_renice_peer {
	CCBPF_RENICE_PEER_ANY,
	CCBPF_RENICE_PEER_V4, /* only peers of IPv4, v4-mapped ones as well */
	CCBPF_RENICE_PEER_V6, /* only the others */
};

/* A socket is selected if all conditions hold. */
struct ccbpf_renice_config {
	char to[CCBPF_RENICE_NAME_LEN]; /* the controller to move to, zeroes behind it; of downloads: empty */
	char from[CCBPF_RENICE_NAME_LEN]; /* only sockets that have this one, or `to`; empty: any */
	__u32 prefix[4]; /* of the peer's address, network byte order */
	__u32 mask[4]; /* the prefix's bits; all 0: any address */
	__u32 peer; /* enum ccbpf_renice_peer */
	__u32 port; /* local or remote; 0: any */
	__u64 cgroup; /* id of a cgroup v2: it or one below; 0: any */
	__u32 by_inode; /* 1: only sockets whose inode is in the map `inodes` */
	__u32 look; /* 1: change nothing */
	__u32 off; /* 1: of downloads, let them go */
	__u32 reserved;
};

/* Are they for what is received? */
#define ccbpf_renice_receives(config) (!*(config)->to)

/*   X(name, text); the order is that of the enum */
#define CCBPF_RENICE_VERDICTS(X)                                      \
	X(HAS_IT, "it has the controller already, or is let go")      \
	X(WOULD_MOVE, "it would be moved")                            \
	X(MOVED, "it was moved")                                      \
	X(REFUSED, "the kernel refused; `error` says why")            \
	X(LISTENS, "it accepts connections: left alone")              \
	X(CONNECTS, "its handshake is not over: left alone")          \
	X(UNSTAMPED, "a download without TCP timestamps: left alone") \
	X(ELSEWHERE, "a download that another sockops program is called for: left to that")

enum ccbpf_renice_verdict {
#define X(name, text) CCBPF_RENICE_##name,
	CCBPF_RENICE_VERDICTS(X)
#undef X
};

struct ccbpf_renice_record {
	__u64 cookie; /* the socket's, unique while the system runs */
	__u8 local_addr[16]; /* network byte order; of IPv4 the first 4 bytes */
	__u8 remote_addr[16];
	__u16 family; /* AF_INET, AF_INET6 */
	__u16 local_port;
	__u16 remote_port;
	__u16 verdict; /* enum ccbpf_renice_verdict */
	char from[CCBPF_RENICE_NAME_LEN]; /* the controller that it had */
	__s32 error; /* errno, negative, if refused */
	__u32 reserved;
};

#endif
