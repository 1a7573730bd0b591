/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parameters of every controller: one table each, and everything else is made from it (the struct in the kernel,
 * the loader's validation and help, the README's table, the tests).
 *
 *   X(name, unit, min, max, default, source, text)
 *
 * Every parameter is a __u32 in [min, max]. The loader refuses what lies outside; the kernel side clamps all the same.
 * A live flow takes a new value at its next ACK. "ours" as source: our decision, see the README's table.
 */
#ifndef CCBPF_PARAMS_H
#define CCBPF_PARAMS_H

#include "ccbpf/types.h"

/* What several of them have. */
#define GENTLE_START_PARAM(X) \
	X(gentle_start, "switch", 0, 1, 0, "RFC 9406; ours", "slow start begins with 4 packets, is half as fast, and ends when the delay rises, before a loss")

#define BACKGROUND_PARAMS(X)                                                                                          \
	X(rebase_pairs, "pairs", 0, 255, 6, "ours",                                                                   \
	  "so many pairs in a small window whose delay stands still mean a longer path; 0: never")                    \
	GENTLE_START_PARAM(X)                                                                                         \
	PACE_PARAM(X)

#define DSCP_PARAM(X)                                                                                                 \
	X(dscp, "DSCP", 0, 63, 1, "RFC 8622",                                                                         \
	  "of the packets, where the application has set none (LE, 000001); 0: none")

#define PACE_PARAM(X)                                                                                                 \
	X(pace_rtt, "us", 0, 10000000, 2000, "ours",                                                                  \
	  "from this base RTT on the kernel paces the flow: bursts are a queue of its own making; small windows always")

#define TCP_LP_PARAMS(X)                                                                                              \
	X(delta, "permille", 10, 900, 150, "III-D.2, eq. 2",                                                          \
	  "delay threshold: this part of the largest queueing delay is an early congestion indication")              \
	X(smoothing, "ACKs", 1, 64, 8, "III-D.1, eq. 1",                                                              \
	  "delay smoothing: a new sample weighs 1/smoothing (gamma = 1/8)")                                           \
	X(inference_rtts, "RTT", 1, 16, 3, "III-D.3", "length of the inference phase after an indication")            \
	X(delay_memory, "s", 10, 3600, 180, "VI-A",                                                                   \
	  "smallest and largest delay are forgotten after this time, in two halves")                                  \
	X(threshold_floor, "us", 0, 100000, 500, "ours",                                                              \
	  "the threshold is not below this (nor above half the largest queueing delay): noise is no queue")           \
	X(small_window, "packets", 0, 16, 5, "III-B.4", "below this window the flow sends pairs of packets apart")    \
	X(small_spread, "RTT", 1, 16, 8, "III-B.4; ours",                                                             \
	  "a small window of w packets is sent in this many RTT, at most MSS/64")                                     \
	BACKGROUND_PARAMS(X)

/* The ECN variant is the same policy with another signal, and falls back to the delay where ECN is not agreed. */
#define TCP_LP_ECN_PARAMS(X)                                                                                          \
	TCP_LP_PARAMS(X)                                                                                              \
	DSCP_PARAM(X)

/* TCP-LP's, and its own. */
#define HSTCP_LP_PARAMS(X)                                                                                            \
	TCP_LP_PARAMS(X)                                                                                              \
	X(first_half, "switch", 0, 1, 0, "ours",                                                                      \
	  "the first indication halves every window, as TCP-LP's, where RFC 3649's b(w) takes less of large ones")    \
	X(second_one, "switch", 0, 1, 0, "ours",                                                                      \
	  "another indication leaves one packet of every window, as TCP-LP's, where c(w) leaves more of large ones")

#define TCPW_LP_PARAMS(X)                                                                                             \
	X(backlog_max, "1/1000 packet", 100, 64000, 3000, "4.3",                                                      \
	  "M: so much of its own may a flow have in the queue of an empty path")                                      \
	X(backlog_min, "1/1000 packet", 0, 3000, 300, "5.2.1; ours",                                                         \
	  "the threshold is not below this: a delay that hardly changes has a way out")                               \
	X(averaging, "reductions", 1, 64, 4, "ours",                                                                  \
	  "D_min, D_max, D_loss: a new one weighs 1/averaging")                                                       \
	X(delay_memory, "s", 10, 3600, 180, "ours", "the smallest RTT is forgotten after this time, in two halves")   \
	X(noise_floor, "us", 0, 100000, 500, "ours",                                                                  \
	  "a queueing delay up to this (or half of D_loss) is noise")                                                 \
	X(small_window, "packets", 0, 16, 2, "5.2.1; ours",                                                           \
	  "below this window the flow sends pairs of packets apart; 0: never")                                        \
	X(small_spread, "RTT", 1, 16, 4, "ours",                                                                      \
	  "a small window of w packets is sent in this many RTT, at most MSS/64")                                     \
	BACKGROUND_PARAMS(X)

#define LTCP_PARAMS(X)                                                                                                \
	X(layer_window, "packets", 1, 1000, 50, "3.1", "W_T: up to this window the flow is reno, above it has layers") \
	X(decrease, "permille", 10, 500, 150, "3.1", "beta: what a loss takes of a window above layer_window")        \
	X(rtt_ref, "us", 1000, 1000000, 10000, "ours",                                                                \
	  "RTT_ref: with a base RTT of n times this, the window grows by the cube root of n faster (K_R)")            \
	X(rtt_memory, "s", 10, 3600, 180, "ours", "the base RTT is forgotten after this time, in two halves")         \
	GENTLE_START_PARAM(X)

#define NF_TCP_PARAMS(X)                                                                                              \
	X(decrease, "permille", 10, 500, 125, "3.1, eq. 2", "b: what a mark takes of the window, once per RTT")       \
	X(alpha, "permille", 10, 1000, 500, "3.2, eq. 7",                                                             \
	  "alpha: this part of the estimate is taken in an RTT, and is what a chirp sends on average")                \
	X(probe, "switch", 0, 1, 1, "3.2", "estimate the available bandwidth by chirps; never without ECN")           \
	X(packets, "packets", 2, 15, 15, "3.2", "N: steps of a chirp")                                                \
	X(spread, "permille", 1010, 2000, 1200, "3.2, eq. 3", "SF: from one gap of a chirp to the next")              \
	X(min_rate, "kbit/s", 100, 10000000, 1000, "3.2", "no chirp begins slower")                                   \
	X(probe_dscp, "DSCP", 0, 63, 7, "3.2; ours",                                                                  \
	  "of a chirp's packets (000111: for local use, RFC 2474; to Linux no lower than LE); 0: as the data's")      \
	X(probe_cost, "permille", 1, 1000, 20, "ours",                                                                \
	  "of a flow's time go into chirps while they find nothing that it lacks")                                    \
	X(noise_floor, "us", 0, 100000, 100, "ours", "a rise of a chirp's delay up to this is noise")                 \
	X(rtt_memory, "s", 10, 3600, 180, "ours", "the base RTT is forgotten after this time, in two halves")         \
	DSCP_PARAM(X)                                                                                                 \
	GENTLE_START_PARAM(X)                                                                                         \
	PACE_PARAM(X)

#define CCBPF_PARAM_FIELD(name, unit, min, max, def, source, text) __u32 name;

struct tcp_lp_params {
	TCP_LP_PARAMS(CCBPF_PARAM_FIELD)
};

struct tcp_lp_ecn_params {
	TCP_LP_ECN_PARAMS(CCBPF_PARAM_FIELD)
};

struct hstcp_lp_params {
	HSTCP_LP_PARAMS(CCBPF_PARAM_FIELD)
};

struct tcpw_lp_params {
	TCPW_LP_PARAMS(CCBPF_PARAM_FIELD)
};

struct ltcp_params {
	LTCP_PARAMS(CCBPF_PARAM_FIELD)
};

struct nf_tcp_params {
	NF_TCP_PARAMS(CCBPF_PARAM_FIELD)
};

#endif
