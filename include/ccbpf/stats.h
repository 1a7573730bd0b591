/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The map `stats`: a per-CPU array indexed by enum ccbpf_kind; a reader adds the CPUs up. */
#ifndef CCBPF_STATS_H
#define CCBPF_STATS_H

#include "ccbpf/types.h"

/*   X(name, text) */
#define CCBPF_STATS(X)                                                                         \
	X(flows_opened, "flows that the controller has taken over")                            \
	X(flows_closed, "flows that ended or switched to another controller")                  \
	X(flows_untracked, "flows not shown because the map `flows` was full")                 \
	X(indications, "early indications acted upon")                                         \
	X(cuts_to_one, "reductions by a second indication, to one packet (hstcp_lp: by c(w))") \
	X(losses, "reductions by loss")                                                        \
	X(marks, "reductions by ECN echo")                                                     \
	X(undos, "reductions taken back")                                                      \
	X(fallbacks, "changes of the congestion signal")                                       \
	X(events_dropped, "events lost because a listener was too slow")                       \
	X(storage_refused, "flows without chirps: the kernel had no memory for them")

struct ccbpf_stats {
#define X(name, text) __u64 name;
	CCBPF_STATS(X)
#undef X
};

/*
 * What the flows of a controller have done, those that have ended included. A flow's part is added whenever its record is
 * written, and when it ends. ccbpf/flow.h has the times of one flow.
 *
 *   totals       a per-CPU array indexed by enum ccbpf_kind
 *   unit_totals  an LRU hash: struct ccbpf_unit_key -> the same for the sockets of one cgroup. What is full forgets the cgroups
 *                whose flows did nothing for longest
 *   rule_totals  the same: struct ccbpf_ruled_key -> the same for the connections to which one rule gave the controller
 *
 *   X(name, text)
 */
#define CCBPF_TOTALS(X)                                                                      \
	X(flows, "flows that the controller has taken over")                                 \
	X(bytes_acked, "bytes that were acknowledged; a FIN is one")                         \
	X(retransmits, "packets that were sent again")                                       \
	X(indications, "early indications acted upon")                                       \
	X(cuts_to_one, "second indications among them")                                      \
	X(losses, "reductions by loss")                                                      \
	X(marks, "reductions by ECN echo")                                                   \
	X(sending_ns, "ns in which data was acknowledged: pauses of more than 2 s are none") \
	X(yielded_ns, "ns of them in which the flow gave way: inference, small, recovery")

struct ccbpf_totals {
#define X(name, text) __u64 name;
	CCBPF_TOTALS(X)
#undef X
};

struct ccbpf_unit_key {
	__u64 cgroup; /* its id */
	__u32 kind; /* enum ccbpf_kind */
	__u32 reserved;
};

struct ccbpf_ruled_key {
	__u64 rule; /* its `made_ns` */
	__u32 kind; /* enum ccbpf_kind */
	__u32 reserved;
};

#define CCBPF_UNITS_MOST 4096
#define CCBPF_RULED_MOST 4096

#endif
