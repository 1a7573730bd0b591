/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets, and the way that they take: a bottleneck with its queue, then a delay with what a path does to packets.
 *
 *	forward   sender --> queue --> rate --> loss, delay, jitter --> receiver
 *	reverse   receiver --> delay, jitter --> queue --> rate --> sender     (the queue only where the link has one)
 *
 * as in the lab's topology, where both queues are the router's. A packet that is being transmitted does not count as
 * waiting. One packet is one full segment, an ACK, or a datagram.
 */
#ifndef CCBPF_SIM_PATH_H
#define CCBPF_SIM_PATH_H

#include "engine.h"

#define SACK_BLOCKS 3 /* beside timestamps, RFC 2018 */
#define STALLS_MOST 64

struct packet {
	void (*arrive)(struct packet *p); /* at the far end, which releases it */
	void *owner; /* of arrive() */
	u64 delay_ns; /* one way, without queue and jitter */
	u64 *last_arrival_ns; /* of the flow's packets this way: in order jitter keeps behind it */
	u32 bytes; /* on the wire */
	u32 index; /* data: the segment; ACK: the first one not received */
	u32 tsval, tsecr; /* ticks of the two hosts' clocks */
	u32 window; /* segments that the receiver takes, from `index` on */
	struct {
		u32 from, to; /* segments, `to` is not one of them */
	} sack[SACK_BLOCKS];
	u8 sacks;
	bool dsack; /* sack[0] is a duplicate, RFC 2883 */
	bool data;
	bool ect, ce, cwr, ece;
	u8 dscp;
	bool low; /* of a background flow: the lower band under strict priority */
	struct packet *next; /* in a queue */
};

struct packet *packet_new(void); /* all members zero */
void packet_free(struct packet *p);

/* A first-in first-out queue; band 1 is served when band 0 is empty. */
struct queue {
	double ns_per_byte; /* 0: there is no bottleneck this way */
	u64 limit_bytes; /* waiting, each band; 0: no limit of this kind */
	u32 limit_packets;
	bool priority; /* two bands */
	u64 mark_bytes; /* CE for ECT packets while the average of the queue is above; 0: none */
	u32 mark_shift; /* the average moves by 2^-shift of the difference at each packet */
	double policer_bytes; /* > 0: no queue; a bucket of this size, and what finds it empty is dropped */
	double policer_tokens;
	u64 policer_filled_ns;
	struct {
		u64 from_ns, to_ns; /* nothing is transmitted between the two */
	} stalls[STALLS_MOST];
	unsigned int n_stalls;
	bool (*early)(struct queue *q,
		      struct packet *p); /* a program before the queue; false: drop */
	void (*leave)(struct queue *q, struct packet *p);
	struct way *way;

	struct packet *head[2], *tail[2];
	u64 bytes[2];
	u32 packets[2];
	double average; /* bytes */
	bool busy;
	struct packet *sending;
	u64 drops, marks, served_bytes;
};

/* One direction of the path. */
struct way {
	struct queue queue;
	bool delay_first; /* the reverse way */
	double loss, duplicate, reorder; /* probabilities */
	u64 jitter_ns; /* uniform, plus or minus */
	bool in_order; /* jitter does not reorder: a late packet holds back those behind it */
	bool aggregated; /* instead: packets wait for a slot, and leave together; slots are up to 2 * jitter_ns apart */
	u64 slot_ns; /* the next one */
	double late; /* probability that a packet takes late_ns more, and is overtaken */
	u64 late_ns;
	struct random random;
	u64 lost;
};

void way_init(struct way *w, u64 seed, u64 stream);
void way_send(struct way *w, struct packet *p);

#endif
