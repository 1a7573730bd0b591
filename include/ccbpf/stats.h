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

#endif
