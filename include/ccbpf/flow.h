/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A record of the map `flows`: what a live flow's controller sees and does.
 *
 *   bpftool map dump pinned /sys/fs/bpf/ccbpf/flows
 *
 * Key: __u64, opaque, unique among live flows. The record is at most max(1 RTT, 10 ms) old while ACKs arrive, and from
 * the beginning of the repair while the kernel repairs a loss; it is written without a lock, so a reader may see two
 * neighbouring states in one record. All times are CLOCK_MONOTONIC.
 */
#ifndef CCBPF_FLOW_H
#define CCBPF_FLOW_H

#include "ccbpf/types.h"

#define CCBPF_NAME_LEN 16 /* TCP_CA_NAME_MAX of include/net/tcp.h */

enum ccbpf_phase {
	CCBPF_PHASE_SLOW_START = 0, /* the kernel's slow start, before the first loss */
	CCBPF_PHASE_AVOIDANCE = 1, /* additive increase */
	CCBPF_PHASE_INFERENCE = 2, /* after an indication: observe, do not grow */
	CCBPF_PHASE_RECOVERY = 3, /* the kernel repairs a loss, or reduces after an ECN echo */
	CCBPF_PHASE_SMALL = 4, /* window below small_window: pairs of packets apart */
	CCBPF_PHASES
};

enum ccbpf_signal {
	CCBPF_SIGNAL_RTT = 0, /* queueing delay of the round trip: no (usable) timestamps */
	CCBPF_SIGNAL_OWD = 1, /* one-way delay from timestamps, its size refined by the RTT */
	CCBPF_SIGNAL_ECN = 2, /* marks */
	CCBPF_SIGNALS
};

/* The part of TCP-LP and TCP-LP/ECN. */
struct ccbpf_flow_lp {
	__u32 window; /* packets: the policy's window; cwnd is at most 4 while it is below small_window */
	__u32 pair_gap_us; /* us between two pairs in a small window, else 0 */
	__u32 inference_left_us; /* us until the inference phase ends, else 0 */
	__u32 peer_tick_ns; /* ns per tick of the peer's timestamp clock, 0: not known (yet) */
};

/* The part of HSTCP-LP: TCP-LP's, and the coefficients at this window. */
struct ccbpf_flow_hstcp_lp {
	struct ccbpf_flow_lp lp;
	__u32 increase_permille; /* of a packet per RTT: a(w) */
	__u32 decrease_permille; /* of the window: what a first indication takes; a loss takes b(w) */
	__u32 second_permille; /* of the window: what another one takes, c(w) */
	__u32 highspeed; /* 1: the window is above 38 packets; up to there everything is TCP-LP's */
};

/* The part of TCPW-LP. */
struct ccbpf_flow_tcpw {
	__u64 ere_bps; /* bit/s: eligible rate, the window per RTT */
	__u32 queue_milli; /* 1/1000 packet: the virtual queue */
	__u32 threshold_milli; /* 1/1000 packet: Q_th */
	__u32 d_min_us; /* us: average of the smallest queueing delay between two early reductions */
	__u32 d_max_us; /* ... and of the largest */
	__u32 d_loss_us; /* us: average of the queueing delay just before losses, 0: not known (yet) */
	__u32 foreground_permille; /* D_min / D_max: the part of the queue that others keep */
	__u32 window; /* packets: the policy's window; cwnd is at most 4 while it is below small_window */
	__u32 pair_gap_us; /* us between two pairs in a small window, else 0 */
};

/* The part of LTCP. */
struct ccbpf_flow_ltcp {
	__u32 layer; /* K, the number of virtual layers, from 1 */
	__u32 layer_begin; /* packets: W_K, where this layer begins */
	__u32 layer_end; /* packets: W_K+1, where the next one does */
	__u32 rtt_factor_permille; /* K_R, in 1/1000; a window of ACKs adds K_R K packets from the second layer on */
};

/* Why a chirp ended early. */
enum ccbpf_chirp_end {
	CCBPF_CHIRP_LOSS = 1, /* packets are missing, or out of order */
	CCBPF_CHIRP_MARK, /* a mark on other data */
	CCBPF_CHIRP_LATE, /* a step left later than planned */
	CCBPF_CHIRP_DATA, /* the application, or the receiver's window, had too little */
	CCBPF_CHIRP_STALE, /* the flight before it did not end, or its feedback did not come */
	CCBPF_CHIRP_OFF, /* the parameter `probe`, or a qdisc that paces by itself */
	CCBPF_CHIRP_SHORT, /* a mark came before two of its steps had left */
};

/* The part of NF-TCP. */
struct ccbpf_flow_nf {
	__u64 probe_bytes; /* payload that left in chirps; it is data of the flow */
	__u32 estimate_kbps; /* available bandwidth that is used, 0: no estimate, the window grows by 1 per RTT */
	__u32 estimate_age_ms; /* ms since the last estimate came; 0xffffffff: never */
	__u32 chirps_sent; /* begun, complete or not */
	__u32 chirps_complete; /* of these: sent on time, and all feedback came */
	__u32 chirps_discarded; /* of these: ended early, see event CHIRP_DISCARDED */
	__u32 range_min_kbps; /* the next chirp's first and last rate */
	__u32 range_max_kbps;
	__u32 target; /* packets: up to here the estimate lets the window grow fast */
	__u32 share_milli; /* 1/1000 packet: what a window of ACKs adds below the target */
	__u32 dscp; /* of the data packets, 0: none was set */
	__u32 chirping; /* 1: a chirp is under way; cwnd is the flow's own window also then */
	__u32 reserved;
};

struct ccbpf_flow {
	char controller[CCBPF_NAME_LEN];
	__u64 instance; /* which loading of the controller serves this flow: see identity.h */
	__u64 started_ns; /* ns: the controller took the flow */
	__u64 updated_ns; /* ns: this record was written */
	__u32 kind; /* enum ccbpf_kind */
	__u32 netns; /* inode of the network namespace */
	__u16 family; /* AF_INET 2 or AF_INET6 10 */
	__u16 local_port; /* host byte order */
	__u16 remote_port; /* host byte order */
	__u16 mss; /* bytes */
	__u8 local_addr[16]; /* network byte order; IPv4 in the first four */
	__u8 remote_addr[16];
	enum ccbpf_phase phase;
	enum ccbpf_signal delay_source;
	__u32 ecn; /* 1: ECN was agreed */
	__u32 cwnd; /* packets */
	__u32 ssthresh; /* packets; 0x7fffffff: not set yet */
	__u32 rtt_us; /* us: the last valid sample */
	__u32 srtt_us; /* us: the kernel's */
	__u32 rtt_min_us; /* us: the base round-trip time */
	__u32 delay_us; /* us: queueing delay, last sample */
	__u32 delay_smoothed_us; /* us: eq. 1 */
	__u32 delay_threshold_us; /* us: eq. 2 */
	__u32 delay_max_us; /* us: the largest queueing delay, d_max - d_min */
	__s32 delay_base_us; /* us: d_min, relative to the connection's first pair of timestamps */
	__u32 retransmits; /* packets, the kernel's total */
	__u64 rate_bps; /* bit/s: delivery rate, the kernel's last sample */
	__u64 bytes_acked; /* bytes */
	__u32 indications; /* early congestion indications that were acted upon */
	__u32 cuts_to_one; /* of these: second ones, which took the window to 1 (hstcp_lp: c(w) of it) */
	__u32 losses; /* times that a loss (or RTO) reduced the window */
	__u32 marks; /* times that an ECN echo reduced the window */
	__u32 undos; /* reductions that the kernel took back */
	__u32 reserved;
	union {
		struct ccbpf_flow_lp lp;
		struct ccbpf_flow_hstcp_lp hstcp_lp;
		struct ccbpf_flow_tcpw tcpw;
		struct ccbpf_flow_ltcp ltcp;
		struct ccbpf_flow_nf nf;
		__u64 own[8]; /* room for every controller's part */
	};
};

#endif
