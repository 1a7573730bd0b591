/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parameters of every controller: one table each, and everything else is made from it (the struct in the kernel,
 * the loader's validation and help, docs/parameters.md, the tests).
 *
 *   X(name, unit, min, max, default, source, text)
 *
 * Every parameter is a __u32 in [min, max]. The loader refuses what lies outside; the kernel side clamps all the same.
 * A live flow takes a new value at its next ACK. The source "ours" means that no paper gives the value.
 */
#ifndef CCBPF_PARAMS_H
#define CCBPF_PARAMS_H

#include "ccbpf/types.h"

/* Parameters that several controllers have. */
#define GENTLE_START_PARAM(X)                                \
	X(gentle_start, "switch", 0, 1, 0, "RFC 9406; ours", \
	  "slow start begins with 4 packets, is half as fast, and ends when the delay rises, before a loss")

#define REBASE_PARAM(X)                             \
	X(rebase_pairs, "pairs", 0, 255, 6, "ours", \
	  "a delay that is constant for this many pairs of a small window is taken for a longer path (le: for at least 0.8 s times this number; the others: also for 16 round trips of a larger window); 0: never")

#define BACKGROUND_PARAMS(X)  \
	REBASE_PARAM(X)       \
	GENTLE_START_PARAM(X) \
	PACE_PARAM(X)

#define DSCP_PARAM(X)                         \
	X(dscp, "DSCP", 0, 63, 1, "RFC 8622", \
	  "DSCP of the packets if the application has set none (1: LE, 000001); 0: leave it alone")

#define PACE_PARAM(X)                                \
	X(pace_rtt, "us", 0, 10000000, 2000, "ours", \
	  "least base RTT at which the kernel paces the flow, because bursts would form a queue; small windows are always paced")

#define TCP_LP_PARAMS(X)                                                                                                                                                                                             \
	X(delta, "permille", 10, 900, 150, "III-D.2, eq. 2",                                                                                                                                                         \
	  "delay threshold, as a part of the largest queueing delay; a smoothed delay above it is an indication. Until the buffer is known the threshold is a quarter of the base RTT (4 to 20 ms)")                 \
	X(smoothing, "ACKs", 1, 64, 8, "III-D.1, eq. 1",                                                                                                                                                             \
	  "delay smoothing: a new sample weighs 1/smoothing (gamma = 1/8)")                                                                                                                                          \
	X(inference_rtts, "RTT", 1, 16, 3, "III-D.3",                                                                                                                                                                \
	  "length of the inference phase after an indication")                                                                                                                                                       \
	X(delay_memory, "s", 10, 3600, 180, "VI-A",                                                                                                                                                                  \
	  "the smallest delay, and that a router marks (tcp_lp_ecn), are remembered for at most this time, and at least half of it; the largest delay is never forgotten")                                           \
	X(threshold_floor, "us", 0, 100000, 500, "ours",                                                                                                                                                             \
	  "least threshold; it is also never below the measured noise of the path. Where the buffer is known, this floor is at most half of the largest queueing delay, and the noise counts up to a quarter of it") \
	X(small_window, "packets", 0, 16, 5, "III-B.4",                                                                                                                                                              \
	  "below this window the flow sends pairs of packets with gaps between them")                                                                                                                                \
	X(small_spread, "RTT", 1, 16, 8, "III-B.4; ours",                                                                                                                                                            \
	  "a small window of w packets is sent in this many RTT, at most MSS/64")                                                                                                                                    \
	BACKGROUND_PARAMS(X)

/* The ECN variant is the same policy with another signal, and falls back to the delay where ECN is not agreed. */
#define TCP_LP_ECN_PARAMS(X) \
	TCP_LP_PARAMS(X)     \
	DSCP_PARAM(X)

/* TCP-LP's parameters, and those of HSTCP-LP alone. */
#define HSTCP_LP_PARAMS(X)                                                                                                                \
	TCP_LP_PARAMS(X)                                                                                                                  \
	X(first_half, "switch", 0, 1, 0, "ours",                                                                                          \
	  "1: the first indication halves every window, as in TCP-LP; 0: it reduces by RFC 3649's b(w), which is less for large windows") \
	X(second_one, "switch", 0, 1, 0, "ours",                                                                                          \
	  "1: a second indication reduces every window to one packet, as in TCP-LP; 0: it reduces by c(w), which leaves more of large windows")

#define TCPW_LP_PARAMS(X)                                                                                                                                         \
	X(backlog_max, "1/1000 packet", 100, 64000, 3000, "4.3",                                                                                                  \
	  "M: packets that a flow may keep queued when it is alone")                                                                                              \
	X(backlog_min, "1/1000 packet", 0, 3000, 300, "5.2.1; ours",                                                                                              \
	  "least threshold of queued packets, so that a flow which sees a nearly constant delay can still grow")                                                  \
	X(averaging, "reductions", 1, 64, 4, "ours",                                                                                                              \
	  "weight of a new sample in the averages D_min, D_max and D_loss: 1/averaging (D_loss where it falls: a quarter of that)")                               \
	X(delay_memory, "s", 10, 3600, 180, "ours",                                                                                                               \
	  "the smallest RTT is remembered for at most this time, and at least half of it")                                                                        \
	X(noise_floor, "us", 0, 100000, 500, "ours",                                                                                                              \
	  "queueing delays up to this (at most half of D_loss) are noise; so are three quarters of the measured noise of the path (at most an eighth of D_loss)") \
	X(chance, "losses", 0, 255, 16, "4.1; ours",                                                                                                              \
	  "while losses count as random, they reduce the window only a little; this many losses in a row without a larger window end that; 0: never")             \
	X(small_window, "packets", 0, 16, 2, "5.2.1; ours",                                                                                                       \
	  "below this window the flow sends pairs of packets with gaps between them; 0: never")                                                                   \
	X(small_spread, "RTT", 1, 16, 4, "ours",                                                                                                                  \
	  "a small window of w packets is sent in this many RTT, at most MSS/64")                                                                                 \
	BACKGROUND_PARAMS(X)

#define LTCP_PARAMS(X)                                                                                     \
	X(layer_window, "packets", 1, 1000, 50, "3.1",                                                     \
	  "W_T: up to this window the flow behaves as reno, above it in layers")                           \
	X(decrease, "permille", 10, 500, 150, "3.1",                                                       \
	  "beta: part by which a loss reduces a window above layer_window")                                \
	X(rtt_ref, "us", 1000, 1000000, 10000, "ours",                                                     \
	  "RTT_ref: with a base RTT of n times this, the window grows by the cube root of n faster (K_R)") \
	X(rtt_memory, "s", 10, 3600, 180, "ours",                                                          \
	  "the base RTT is remembered for at most this time, and at least half of it")                     \
	GENTLE_START_PARAM(X)

#define NF_TCP_PARAMS(X)                                                                                                                        \
	X(decrease, "permille", 10, 500, 125, "3.1, eq. 2",                                                                                     \
	  "b: part by which a mark reduces the window, at most once per RTT")                                                                   \
	X(decrease_most, "permille", 10, 500, 500, "ours",                                                                                      \
	  "largest b: b doubles with each mark and halves with each RTT without a mark; a value up to `decrease` turns this off")               \
	X(back, "permille", 0, 1000, 937, "ours",                                                                                               \
	  "after a single mark and an RTT without a mark the window grows by eq. 7 up to this part of the window that was marked; 0: by eq. 8") \
	X(alpha, "permille", 10, 1000, 500, "3.2, eq. 7",                                                                                       \
	  "alpha: part of the estimated bandwidth that the window takes per RTT; twice alpha is the average rate of a chirp, as a part of it")  \
	X(probe, "switch", 0, 1, 1, "3.2",                                                                                                      \
	  "estimate the available bandwidth by chirps; never without ECN")                                                                      \
	X(early_probe, "switch", 0, 1, 0, "3.2; ours",                                                                                          \
	  "1: chirps of 2, 4, 8 packets from the first RTT on; 0: only chirps of full length, and none in the first slow start")                \
	X(packets, "packets", 2, 15, 15, "3.2", "N: steps of a chirp")                                                                          \
	X(spread, "permille", 1010, 2000, 1200, "3.2, eq. 3",                                                                                   \
	  "SF: ratio of each gap of a chirp to the next one")                                                                                   \
	X(min_rate, "kbit/s", 100, 10000000, 1000, "3.2", "lowest rate at which a chirp begins")                                                \
	X(probe_dscp, "DSCP", 0, 63, 7, "3.2; ours",                                                                                            \
	  "DSCP of a chirp's packets (7, 000111: for local use, RFC 2474; Linux ranks it no lower than LE); 0: that of the data")               \
	X(probe_cost, "permille", 1, 1000, 20, "ours",                                                                                          \
	  "largest part of a flow's time spent on chirps that find no extra bandwidth")                                                         \
	X(noise_floor, "us", 0, 100000, 100, "ours",                                                                                            \
	  "a delay that rises within a chirp by no more than this is noise")                                                                    \
	X(rtt_memory, "s", 10, 3600, 180, "ours",                                                                                               \
	  "the base RTT is remembered for at most this time, and at least half of it")                                                          \
	DSCP_PARAM(X)                                                                                                                           \
	GENTLE_START_PARAM(X)                                                                                                                   \
	PACE_PARAM(X)

#define LE_PARAMS(X)                                                                                                                   \
	X(threshold, "us", 500, 100000, 4000, "ours",                                                                                  \
	  "T: a queueing delay above this is an indication; T is never below the noise of the path or the time of 1.5 packets")        \
	X(threshold_min, "us", 100, 100000, 500, "ours",                                                                               \
	  "where losses have shown that the buffer is small, T is half of its delay, and at least this")                               \
	X(gap_max, "RTT", 3, 64, 16, "ours",                                                                                           \
	  "largest time between two pairs of packets while others keep a queue; the first gap is of 4 or 8 RTT")                       \
	X(gap_share, "packets", 1, 10000, 150, "ours",                                                                                 \
	  "the same for large windows: this number divided by the window to return to, at least 3 RTT; so fast flows look more often") \
	X(quiet_rounds, "RTT", 1, 200, 8, "ours",                                                                                      \
	  "after so many round trips without a queue the growth doubles with each further one, up to 1/16 of the window")              \
	X(delay_memory, "s", 10, 3600, 180, "ours",                                                                                    \
	  "the smallest delay is remembered for at most this time, and at least half of it")                                           \
	REBASE_PARAM(X)                                                                                                                \
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

struct le_params {
	LE_PARAMS(CCBPF_PARAM_FIELD)
};

struct nf_tcp_params {
	NF_TCP_PARAMS(CCBPF_PARAM_FIELD)
};

#endif
