/* SPDX-License-Identifier: GPL-2.0-only */
/* Counters of struct ccbpf_totals: X(field, "called", form, help) */
#ifndef CCBPF_METRICS_TOTALS_H
#define CCBPF_METRICS_TOTALS_H

/* Those that no other metric of the controllers has. */
#define TOTALS_ADDED(X)                                                                \
	X(bytes_acked, "bytes_acked", number,                                          \
	  "bytes that were acknowledged, also of flows that have ended; a FIN is one") \
	X(retransmits, "retransmits", number, "packets that were sent again")          \
	X(sending_ns, "sending_seconds", seconds,                                      \
	  "time in which data was acknowledged, of all flows together")                \
	X(yielded_ns, "yielded_seconds", seconds,                                      \
	  "time among it in which the flow gave way: inference, small, recovery")

/* Those of cgroups and rules, which have no other counters. */
#define TOTALS_OF_PART(X)                                                      \
	TOTALS_ADDED(X)                                                        \
	X(indications, "indications", number, "early indications acted upon")  \
	X(cuts_to_one, "cuts_to_one", number, "second indications among them") \
	X(losses, "losses", number, "reductions by loss")                      \
	X(marks, "marks", number, "reductions by ECN echo")

#endif
