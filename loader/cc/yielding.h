/* SPDX-License-Identifier: GPL-2.0-only */
/* Does a flow give way now, and to what? */
#ifndef CCBPF_YIELDING_H
#define CCBPF_YIELDING_H

#include "ccbpf/flow.h"

/* To what: X(NAME, "word", "what it says") */
#define YIELDINGS(X)                                                          \
	X(NOT, "", "it does not: it grows, or sends nothing")                 \
	X(DELAY, "delay", "an early sign of congestion, by delay or a queue") \
	X(MARK, "mark", "an ECN mark")                                        \
	X(LOSS, "loss", "a loss, which the kernel repairs")

enum yielding {
#define X(name, word, text) YIELDING_##name,
	YIELDINGS(X)
#undef X
	YIELDING_KINDS
};

/* "delay", "mark", "loss"; "" for NOT. */
const char *yielding_word(enum yielding yielding);

/* A record that is older than this at `now_ns` is of a flow that sends nothing. */
#define YIELDING_SILENT_NS 2000000000ull

/*
 * A flow yields in the phases inference, small and recovery. The record does not hold the
 * cause: it is the counter that has grown since `before`, an earlier record of the flow; else
 * what it was then, `was`; else, with `before` NULL, what the phase and the signal suggest.
 */
enum yielding yielding_of(const struct ccbpf_flow *flow, const struct ccbpf_flow *before,
			  enum yielding was, __u64 now_ns);

#endif
