/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The pinned maps of the early-marking queue, a set for each device that has the queue:
 *
 *   <root>/aqm/<netns>_<ifindex>/config     array of 1: struct ccbpf_aqm_config, takes effect at the next packet
 *                                state      array of 1: struct ccbpf_aqm_state
 *                                counts     per-CPU array of 1: struct ccbpf_aqm_counts; a reader adds the CPUs up
 *                                identity   array of 1, read-only: struct ccbpf_aqm_identity
 *
 * state and counts are written without a lock. If two CPUs write at once, the average may miss a packet; the counts,
 * which are per CPU, miss none.
 */
#ifndef CCBPF_AQM_H
#define CCBPF_AQM_H

#include "ccbpf/types.h"

#define CCBPF_AQM_ABI 1 /* grows with any change to a pinned map's layout */
#define CCBPF_AQM_BUCKETS 33 /* bucket 0: empty queue; bucket i: 2^(i-1) to 2^i - 1 bytes */
#define CCBPF_AQM_DSCPS 64
#define CCBPF_AQM_WHOLE 100000 /* 100 % as a threshold */
#define CCBPF_AQM_SHIFT_MOST 15 /* largest average_shift; larger values count as this */
#define CCBPF_AQM_OFF 0xffffffffu /* as a threshold: never */

/*   X(name, text); the order is the ABI's */
#define CCBPF_AQM_CLASSES(X)                                                      \
	X(standard, "everything else: marked by the average, late or not at all") \
	X(nf, "background, LE and other DSCPs: marked by the average, early")     \
	X(probe, "chirps of nf_tcp: marked when more than one packet waits at this instant")

enum ccbpf_aqm_class {
#define X(name, text) CCBPF_AQM_##name,
	CCBPF_AQM_CLASSES(X)
#undef X
	CCBPF_AQM_CLASS_COUNT
};

struct ccbpf_aqm_config {
	__u32 limit_bytes; /* the thresholds' 100 % */
	__u32 packet_bytes; /* a full packet of the device: MTU and link header */
	__u32 packet_ns; /* its time at the link's rate, for the idle rule; 0: not known */
	__u32 average_shift; /* the average's weight is 2^-shift per packet */
	__u32 nf_min; /* 1/1000 % of the limit */
	__u32 nf_max;
	__u32 std_min; /* CCBPF_AQM_OFF: standard traffic is left alone */
	__u32 std_max;
	__u32 leaf; /* classid whose queue is read, 0: the root's */
	__u32 reserved;
	__u64 dscps[CCBPF_AQM_CLASS_COUNT]; /* bit i: DSCP i; standard has 0, and the rest */
};

/* Marks of one class: see struct red_spacing of law/red.h. */
struct ccbpf_aqm_spacing {
	__u32 count;
	__u32 random_q16;
};

struct ccbpf_aqm_state {
	__u64 average_q16; /* bytes: the average queue */
	__u64 last_ns; /* CLOCK_MONOTONIC: when the last packet came */
	__u32 waiting_bytes; /* the queue that this packet found, and the packet itself */
	__u32 backlog_bytes; /* the queue that it found */
	struct ccbpf_aqm_spacing spacing[CCBPF_AQM_CLASS_COUNT];
};

struct ccbpf_aqm_count {
	__u64 packets; /* segments of a GSO skb one by one */
	__u64 bytes; /* with link headers, as tc counts them */
	__u64 marked; /* packets that were due for a mark, and left with CE */
	__u64 dropped; /* packets that were due for a mark and not ECN-capable: dropped early */
};

struct ccbpf_aqm_counts {
	struct ccbpf_aqm_count of[CCBPF_AQM_CLASS_COUNT];
	__u64 blind; /* packets whose queue could not be read (lock-free) */
	__u64 histogram[CCBPF_AQM_BUCKETS]; /* packets, by the size of the queue that they found */
};

#define CCBPF_AQM_NAME_LEN 16 /* IFNAMSIZ */
#define CCBPF_AQM_VERSION_LEN 24

struct ccbpf_aqm_identity {
	__u32 abi; /* CCBPF_AQM_ABI of the object */
	__u32 netns; /* inode of the device's network namespace */
	__u32 ifindex;
	__u32 made_clsact; /* 1: there was no clsact before */
	__u64 instance; /* CLOCK_MONOTONIC ns of the loading */
	char device[CCBPF_AQM_NAME_LEN]; /* its name at that time */
	char version[CCBPF_AQM_VERSION_LEN];
};

#endif
