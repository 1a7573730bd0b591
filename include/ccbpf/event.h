/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A record of the ring buffer `events`: one change of a flow's state, or of a download's (kern/receive_events.bpf.h). Nothing is written unless somebody listens:
 * a listener writes into `listener` (array map, one __u64) the CLOCK_MONOTONIC time in ns until which it will read.
 */
#ifndef CCBPF_EVENT_H
#define CCBPF_EVENT_H

#include "ccbpf/types.h"

/*   X(number, NAME, "word", "what it says; what a and b hold") */
#define CCBPF_EVENTS(X)                                                                                                             \
	X(1, OPENED, "opened",                                                                                                      \
	  "the controller takes over a flow; a: ECN agreed, b: timestamps agreed")                                                  \
	X(2, CLOSED, "closed",                                                                                                      \
	  "the flow ended or chose another controller; a: indications, b: losses")                                                  \
	X(3, INDICATION, "indication",                                                                                              \
	  "first early indication, the window cut; a: smoothed, b: threshold us")                                                   \
	X(4, CUT_TO_ONE, "cut-to-one",                                                                                              \
	  "second indication, in the inference phase: the window is reduced to one packet; a: smoothed, b: threshold us")           \
	X(5, INFERENCE_END, "inference-end",                                                                                        \
	  "no further indication, growth resumes; a: length us, b: 0")                                                              \
	X(6, LOSS, "loss",                                                                                                          \
	  "a loss or RTO reduced the window (le: once more, if the loss turns out to be larger); a: old ssthresh, b: new ssthresh") \
	X(7, MARK, "mark", "an ECN echo reduced the window; a: old window, b: new window")                                          \
	X(8, UNDO, "undo", "the kernel undid a reduction; a: restored window, b: 0")                                                \
	X(9, SMALL_ENTER, "small-enter", "window below small_window; a: us between pairs, b: 0")                                    \
	X(10, SMALL_LEAVE, "small-leave",                                                                                           \
	  "the window has grown beyond small_window; a: new window, b: 0")                                                          \
	X(11, CLOCK, "clock",                                                                                                       \
	  "the peer's timestamp tick was learned; a: ns per tick, b: previous")                                                     \
	X(12, FALLBACK, "fallback", "the signal changed; a: old enum ccbpf_signal, b: new one")                                     \
	X(13, SLOW_START_END, "slow-start-end",                                                                                     \
	  "slow start ended before a loss; a: RTT us, b: smallest us")                                                              \
	X(14, REBASE, "rebase",                                                                                                     \
	  "a constant delay is taken for a longer path; a: rise us, b: new base RTT us")                                            \
	X(15, EWR, "ewr", "early window reduction; a: virtual queue, b: threshold 1/1000 packet")                                   \
	X(16, LAYER, "layer",                                                                                                       \
	  "the number of virtual layers changed; a: old number, b: new number")                                                     \
	X(17, CHIRP, "chirp", "a chirp was sent; a: its first rate in kbit/s, b: steps")                                            \
	X(18, CHIRP_DISCARDED, "chirp-discarded",                                                                                   \
	  "a chirp ended early; a: enum ccbpf_chirp_end, b: steps sent")                                                            \
	X(19, ESTIMATE, "estimate",                                                                                                 \
	  "a chirp's estimate; a: this chirp's kbit/s, b: kbit/s that is used now")                                                 \
	X(20, NO_STORAGE, "no-storage",                                                                                             \
	  "the kernel has no memory for a flow's chirps; a: bytes, b: 0")

enum ccbpf_event_type {
#define X(number, name, word, text) CCBPF_EVENT_##name = number,
	CCBPF_EVENTS(X)
#undef X
};

struct ccbpf_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 flow; /* key of `flows` */
	__u64 instance;
	__u32 kind; /* enum ccbpf_kind */
	__u32 type; /* enum ccbpf_event_type */
	__u16 family;
	__u16 local_port; /* host byte order */
	__u16 remote_port;
	__u16 reserved;
	__u8 local_addr[16]; /* network byte order; IPv4 in the first four */
	__u8 remote_addr[16];
	__u32 cwnd; /* packets, after the change; rx_le: the window that is advertised */
	__u32 ssthresh; /* packets, after the change; rx_le: the window to which it returns */
	__u32 rtt_us; /* us: the last valid sample */
	__u32 delay_us; /* us: queueing delay, last sample */
	__u32 a; /* see the table */
	__u32 b;
};

#endif
