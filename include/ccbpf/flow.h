/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A record of the map `flows`: what a live flow's controller sees and does.
 *
 *   bpftool map dump pinned /sys/fs/bpf/ccbpf/flows
 *
 * Key: __u64, opaque, unique among live flows. The record is at most max(1 RTT, 10 ms) old while ACKs arrive, and from
 * the beginning of the repair while the kernel repairs a loss; it is written without a lock, so a reader may see two
 * neighbouring states in one record. All times are CLOCK_MONOTONIC.
 *
 * The fields are tables. The structs, the JSON of `ccbpf flows`, docs/parameters.md and the tests are made from them:
 *
 *   X(of, field, form, unit, text)
 *
 * of     the tag of the struct: the second argument of the table, the same in every row.
 * form   how the field is stored and shown: one of the forms below.
 * text   what the value says, for docs/parameters.md.
 *
 * A controller with fields of its own has a table, a struct, a row in CCBPF_FLOW_PARTS and a row in CCBPF_FLOW_OWN. A row
 * that moves, or has another form, changes the layout of a pinned map: raise CCBPF_ABI of identity.h.
 */
#ifndef CCBPF_FLOW_H
#define CCBPF_FLOW_H

#include "ccbpf/types.h"

#define CCBPF_NAME_LEN 16 /* TCP_CA_NAME_MAX of include/net/tcp.h */

/* What a flow's controller does: X(number, NAME, "word", "what it says") */
#define CCBPF_FLOW_PHASES(X)                                                                  \
	X(0, SLOW_START, "slow-start", "the kernel's slow start, before the first loss")      \
	X(1, AVOIDANCE, "avoidance", "additive increase")                                     \
	X(2, INFERENCE, "inference", "after an indication: observe, do not grow")             \
	X(3, RECOVERY, "recovery", "the kernel repairs a loss, or reduces after an ECN echo") \
	X(4, SMALL, "small",                                                                  \
	  "the window is below small_window: pairs of packets with gaps between them")

enum ccbpf_phase {
#define X(number, name, word, text) CCBPF_PHASE_##name = number,
	CCBPF_FLOW_PHASES(X)
#undef X
	CCBPF_PHASES
};

/* What it reacts to: X(number, NAME, "word", "what it says") */
#define CCBPF_FLOW_SIGNALS(X)                                                          \
	X(0, RTT, "rtt", "queueing delay of the round trip: no (usable) timestamps")   \
	X(1, OWD, "owd", "one-way delay from timestamps, its size refined by the RTT") \
	X(2, ECN, "ecn", "marks")                                                      \
	X(3, NONE, "none", "a download whose delay is not known (yet): losses alone")

enum ccbpf_signal {
#define X(number, name, word, text) CCBPF_SIGNAL_##name = number,
	CCBPF_FLOW_SIGNALS(X)
#undef X
	CCBPF_SIGNALS
};

/* Why a chirp ended early: X(number, NAME, "word", "what it says") */
#define CCBPF_CHIRP_ENDS(X)                                                                      \
	X(1, LOSS, "loss", "packets were missing, or out of order")                              \
	X(2, MARK, "mark", "a mark on other data")                                               \
	X(3, LATE, "late", "a step left later than planned")                                     \
	X(4, DATA, "data",                                                                       \
	  "the application had too little data, or the receive window was too small")            \
	X(5, STALE, "stale", "the packets before it, or its own, were not acknowledged in time") \
	X(6, OFF, "off", "the parameter probe, or a qdisc that paces by itself")                 \
	X(7, SHORT, "short", "a mark came before two of its steps had left")                     \
	X(8, SPARSE, "sparse", "the receiver does not answer each CWR at once")

enum ccbpf_chirp_end {
#define X(number, name, word, text) CCBPF_CHIRP_##name = number,
	CCBPF_CHIRP_ENDS(X)
#undef X
};

/* Why no chirp began when one was due; 0: one began, or none was due since an RTT without mark and loss. */
#define CCBPF_CHIRP_WAITS(X)                                                                   \
	X(1, ECN, "ecn", "ECN was not agreed")                                                 \
	X(2, OFF, "off", "the parameter probe is 0")                                           \
	X(3, FQ, "fq", "the qdisc fq chooses when packets leave")                              \
	X(4, STORAGE, "storage", "the kernel has no memory for it")                            \
	X(5, SLOW_START, "slow-start", "the first slow start has not ended")                   \
	X(6, WINDOW, "window", "the window is too small for bursts of the next chirp's rates") \
	X(7, DATA, "data",                                                                     \
	  "the application has too little data, or the receive window is too small")           \
	X(8, ACCECN, "accecn",                                                                 \
	  "AccECN was agreed: the receiver counts marks, and a chirp needs an echo of each packet")

enum ccbpf_chirp_wait {
	CCBPF_CHIRP_WAIT_NONE = 0,
#define X(number, name, word, text) CCBPF_CHIRP_WAIT_##name = number,
	CCBPF_CHIRP_WAITS(X)
#undef X
};

/*
 * The forms of a field, and how each is declared. In JSON the first four are numbers, names and addresses are texts, and
 * the others are words of the tables above: "?" for an unknown phase or signal, null where no reason is known.
 */
#define CCBPF_FORM_u16(field) __u16 field;
#define CCBPF_FORM_u32(field) __u32 field;
#define CCBPF_FORM_s32(field) __s32 field;
#define CCBPF_FORM_u64(field) __u64 field;
#define CCBPF_FORM_name(field) char field[CCBPF_NAME_LEN];
#define CCBPF_FORM_address(field) __u8 field[16]; /* network byte order, IPv4 in the first four */
#define CCBPF_FORM_phase(field) enum ccbpf_phase field;
#define CCBPF_FORM_signal(field) enum ccbpf_signal field;
#define CCBPF_FORM_chirp_wait(field) __u16 field; /* enum ccbpf_chirp_wait */
#define CCBPF_FORM_chirp_end(field) __u16 field; /* enum ccbpf_chirp_end, 0: none */

#define CCBPF_FLOW_FIELD(of, field, form, unit, text) CCBPF_FORM_##form(field)

/* The fields that every record has. */
#define CCBPF_FLOW_COMMON(X, of)                                                                       \
	X(of, controller, name, "name", "the controller that serves the flow")                         \
	X(of, instance, u64, "number",                                                                 \
	  "which loading of the controller serves this flow, as in `ccbpf -j status`")                 \
	X(of, started_ns, u64, "ns", "when the controller took over the flow")                         \
	X(of, updated_ns, u64, "ns", "when this record was written")                                   \
	X(of, kind, u32, "number", "the controller's number in include/ccbpf/controllers.h")           \
	X(of, netns, u32, "inode", "the network namespace")                                            \
	X(of, family, u16, "number", "address family: 2 is IPv4, 10 is IPv6")                          \
	X(of, local_port, u16, "port", "in host byte order")                                           \
	X(of, remote_port, u16, "port", "in host byte order")                                          \
	X(of, mss, u16, "bytes", "the kernel's current maximum segment size")                          \
	X(of, local_addr, address, "address", "local address")                                         \
	X(of, remote_addr, address, "address", "remote address")                                       \
	X(of, phase, phase, "word", "what the controller does")                                        \
	X(of, delay_source, signal, "word", "what the controller reacts to")                           \
	X(of, ecn, u32, "switch", "1: ECN was agreed")                                                 \
	X(of, cwnd, u32, "packets", "congestion window; for a download the receive window")            \
	X(of, ssthresh, u32, "packets",                                                                \
	  "slow start threshold; 2147483647: not set yet; "                                            \
	  "for a download the window below which it grows fast, 0: none yet")                          \
	X(of, rtt_us, u32, "us", "round-trip time, the last valid sample")                             \
	X(of, srtt_us, u32, "us", "round-trip time, smoothed by the kernel")                           \
	X(of, rtt_min_us, u32, "us", "base round-trip time")                                           \
	X(of, delay_us, u32, "us", "queueing delay, the last sample")                                  \
	X(of, delay_smoothed_us, u32, "us",                                                            \
	  "queueing delay, smoothed by eq. 1 of TCP-LP; le, rx_le: smallest of the last block")        \
	X(of, delay_threshold_us, u32, "us",                                                           \
	  "threshold of that delay: eq. 2 of TCP-LP, or T of le")                                      \
	X(of, delay_max_us, u32, "us", "the largest queueing delay, d_max - d_min")                    \
	X(of, delay_base_us, s32, "us",                                                                \
	  "d_min, relative to the connection's first pair of timestamps")                              \
	X(of, retransmits, u32, "packets", "retransmitted packets, the kernel's total")                \
	X(of, rate_bps, u64, "bit/s",                                                                  \
	  "delivery rate, the kernel's last sample; for a download that of the last round trip")       \
	X(of, bytes_acked, u64, "bytes",                                                               \
	  "acknowledged payload that was sent; for a download payload that was received")              \
	X(of, indications, u32, "times", "early congestion indications that were acted upon")          \
	X(of, cuts_to_one, u32, "times",                                                               \
	  "second indications among them, which reduced the window to one packet (hstcp_lp: by c(w))") \
	X(of, losses, u32, "times", "reductions by a loss or an RTO")                                  \
	X(of, marks, u32, "times", "reductions by an ECN echo")                                        \
	X(of, undos, u32, "times", "reductions that the kernel took back")

/* What is added up since `started_ns` (kern/life.bpf.h); JSON has it beside the fields above. */
#define CCBPF_FLOW_LIFE(X, of)                                                                 \
	X(of, sending_ns, u64, "ns",                                                           \
	  "time in which data was acknowledged, or received, without pauses of more than 2 s") \
	X(of, yielded_ns, u64, "ns",                                                           \
	  "time among it in which the flow gave way: inference, small, recovery")              \
	X(of, yields_since_ns, u64, "ns",                                                      \
	  "when the flow began to give way, if its phase says that it does; 0: with this record")

#define CCBPF_FLOW_LP(X, of)                                                               \
	X(of, window, u32, "packets",                                                      \
	  "window of the policy; cwnd is at most 4 while this is below small_window")      \
	X(of, pair_gap_us, u32, "us", "time between two pairs of a small window, else 0")  \
	X(of, inference_left_us, u32, "us", "time until the inference phase ends, else 0") \
	X(of, peer_tick_ns, u32, "ns", "tick of the peer's timestamp clock; 0: not known (yet)")

#define CCBPF_FLOW_HIGHSPEED(X, of)                                              \
	X(of, increase_permille, u32, "1/1000 packet", "a(w): growth per RTT")   \
	X(of, decrease_permille, u32, "permille",                                \
	  "part of the window that a first indication takes; a loss takes b(w)") \
	X(of, second_permille, u32, "permille",                                  \
	  "c(w): part of the window that a second indication takes")             \
	X(of, highspeed, u32, "switch",                                          \
	  "1: the window is above 38 packets; up to there the flow behaves as TCP-LP")

#define CCBPF_FLOW_TCPW(X, of)                                                               \
	X(of, ere_bps, u64, "bit/s", "ERE, the eligible rate: the window per RTT")           \
	X(of, queue_milli, u32, "1/1000 packet", "the virtual queue")                        \
	X(of, threshold_milli, u32, "1/1000 packet", "Q_th: threshold of the virtual queue") \
	X(of, d_min_us, u32, "us",                                                           \
	  "D_min: average of the smallest queueing delay between two early reductions")      \
	X(of, d_max_us, u32, "us",                                                           \
	  "D_max: average of the largest queueing delay between two early reductions")       \
	X(of, d_loss_us, u32, "us",                                                          \
	  "D_loss: average of the queueing delay just before losses; 0: not known (yet)")    \
	X(of, foreground_permille, u32, "permille",                                          \
	  "D_min / D_max: part of the queue that other flows cause")                         \
	X(of, window, u32, "packets",                                                        \
	  "window of the policy; cwnd is at most 4 while this is below small_window")        \
	X(of, pair_gap_us, u32, "us", "time between two pairs of a small window, else 0")

#define CCBPF_FLOW_LTCP(X, of)                                                            \
	X(of, layer, u32, "layers", "K: number of virtual layers, from 1")                \
	X(of, layer_begin, u32, "packets", "W_K: the window where this layer begins")     \
	X(of, layer_end, u32, "packets", "W_K+1: the window where the next layer begins") \
	X(of, rtt_factor_permille, u32, "permille",                                       \
	  "K_R; a window of ACKs adds K_R K packets from the second layer on")

#define CCBPF_FLOW_NF(X, of)                                                                                          \
	X(of, probe_bytes, u64, "bytes",                                                                              \
	  "payload that was sent in chirps; it is data of the flow")                                                  \
	X(of, estimate_kbps, u32, "kbit/s",                                                                           \
	  "available bandwidth that is used; 0: no estimate, the window grows by 1 per RTT")                          \
	X(of, estimate_age_ms, u32, "ms", "age of the last estimate; 4294967295: there was none")                     \
	X(of, chirps_sent, u32, "chirps", "chirps that began, complete or not")                                       \
	X(of, chirps_complete, u32, "chirps",                                                                         \
	  "chirps among them that were sent on time and got all their feedback")                                      \
	X(of, chirps_discarded, u32, "chirps",                                                                        \
	  "chirps among them that ended early, see the event `chirp-discarded`")                                      \
	X(of, range_min_kbps, u32, "kbit/s", "first rate of the next chirp")                                          \
	X(of, range_max_kbps, u32, "kbit/s", "last rate of the next chirp")                                           \
	X(of, target, u32, "packets", "up to this window the estimate allows fast growth")                            \
	X(of, share_milli, u32, "1/1000 packet", "growth for a window of ACKs below the target")                      \
	X(of, dscp, u32, "DSCP", "DSCP of the data packets; 0: none was set")                                         \
	X(of, chirping, u32, "switch",                                                                                \
	  "1: a chirp is under way; cwnd is the flow's own window also then")                                         \
	X(of, chirps_wait, chirp_wait, "word",                                                                        \
	  "why no chirp began when one was due; null: one began, or none was due since an RTT without mark and loss") \
	X(of, chirps_why, chirp_end, "word",                                                                          \
	  "why the last discarded chirp ended early; null: none was discarded")

#define CCBPF_FLOW_RX(X, of)                                                                       \
	X(of, held_ms, u32, "ms", "time in which the window was held back")                        \
	X(of, window_bytes, u32, "bytes",                                                          \
	  "window that the law allows; cwnd is the same in packets")                               \
	X(of, flight_bytes, u32, "bytes", "payload that arrived in the last round trip")           \
	X(of, scale_bytes, u32, "bytes", "unit of the window scale")                               \
	X(of, back_bytes, u32, "bytes", "window to return to when others leave")                   \
	X(of, peer_tick_ns, u32, "ns", "tick of the sender's timestamp clock; 0: not known (yet)") \
	X(of, noise_us, u32, "us", "how far the path's delays differ within a round trip")         \
	X(of, packet_us, u32, "us", "time of a packet at the bottleneck; 0: not known")

#define CCBPF_FLOW_LE(X, of)                                                                     \
	X(of, block_delay_us, u32, "us", "smallest queueing delay of the last block of packets") \
	X(of, cut_delay_us, u32, "us", "the same at the last early reduction")                   \
	X(of, noise_us, u32, "us", "5/4 of how far the path's delay falls in a round trip")      \
	X(of, packet_us, u32, "us", "time of a packet at the bottleneck; 0: not known")          \
	X(of, back, u32, "packets", "window to return to when others leave")                     \
	X(of, every, u32, "packets", "acknowledged packets that add one to the window")          \
	X(of, pair_gap_us, u32, "us",                                                            \
	  "time between two pairs of packets while others keep a queue, else 0")                 \
	X(of, peer_tick_ns, u32, "ns", "tick of the peer's timestamp clock; 0: not known (yet)")

struct ccbpf_flow_life {
	CCBPF_FLOW_LIFE(CCBPF_FLOW_FIELD, ccbpf_flow_life)
	__u64 rule; /* `made_ns` of the rule that gave the connection its controller; 0: none did */
	__u64 cgroup; /* id of its socket's cgroup; 0: not known, or the socket is another host's */
	__u32 rule_id; /* id of that rule */
	__u32 reserved;
};

struct ccbpf_flow_lp {
	CCBPF_FLOW_LP(CCBPF_FLOW_FIELD, ccbpf_flow_lp)
};

/* TCP-LP's part, and the coefficients at the present window. */
struct ccbpf_flow_hstcp_lp {
	struct ccbpf_flow_lp lp;
	CCBPF_FLOW_HIGHSPEED(CCBPF_FLOW_FIELD, ccbpf_flow_hstcp_lp)
};

struct ccbpf_flow_tcpw {
	CCBPF_FLOW_TCPW(CCBPF_FLOW_FIELD, ccbpf_flow_tcpw)
};

struct ccbpf_flow_ltcp {
	CCBPF_FLOW_LTCP(CCBPF_FLOW_FIELD, ccbpf_flow_ltcp)
};

struct ccbpf_flow_nf {
	CCBPF_FLOW_NF(CCBPF_FLOW_FIELD, ccbpf_flow_nf)
};

struct ccbpf_flow_rx {
	CCBPF_FLOW_RX(CCBPF_FLOW_FIELD, ccbpf_flow_rx)
};

struct ccbpf_flow_le {
	CCBPF_FLOW_LE(CCBPF_FLOW_FIELD, ccbpf_flow_le)
};

/*
 * The controllers' own parts: X(part, member, FIELDS, "what it is")
 *
 * part     the key of the object in JSON.
 * member   the member of the record's union that has these fields, a struct ccbpf_flow_<member>.
 */
#define CCBPF_FLOW_PARTS(X)                                                      \
	X(lp, lp, CCBPF_FLOW_LP, "TCP-LP's window and inference")                \
	X(highspeed, hstcp_lp, CCBPF_FLOW_HIGHSPEED,                             \
	  "coefficients of HighSpeed TCP at this window")                        \
	X(tcpw, tcpw, CCBPF_FLOW_TCPW, "TCPW-LP's queue and its average delays") \
	X(ltcp, ltcp, CCBPF_FLOW_LTCP, "LTCP's virtual layers")                  \
	X(nf, nf, CCBPF_FLOW_NF, "NF-TCP's chirps and their estimate")           \
	X(receive, rx, CCBPF_FLOW_RX, "the receive window of a download")        \
	X(le, le, CCBPF_FLOW_LE, "le's queue, and the window it returns to")

/* Which parts the records of a controller have: X(controller, part) */
#define CCBPF_FLOW_OWN(X)      \
	X(tcp_lp, lp)          \
	X(tcp_lp_ecn, lp)      \
	X(hstcp_lp, lp)        \
	X(hstcp_lp, highspeed) \
	X(tcpw_lp, tcpw)       \
	X(ltcp, ltcp)          \
	X(nf_tcp, nf)          \
	X(rx_le, receive)      \
	X(le, le)

struct ccbpf_flow {
	CCBPF_FLOW_COMMON(CCBPF_FLOW_FIELD, ccbpf_flow)
	__u32 reserved;
	union {
#define X(part, member, fields, text) struct ccbpf_flow_##member member;
		CCBPF_FLOW_PARTS(X)
#undef X
		__u64 own[8]; /* room for every controller's part */
	};
	struct ccbpf_flow_life life;
};

#endif
