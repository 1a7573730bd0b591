/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a gateway remembers of a connection: its beginning, what arrived and when, and the law's state.
 */
#ifndef CCBPF_KERN_GATEWAY_STATE_BPF_H
#define CCBPF_KERN_GATEWAY_STATE_BPF_H

#include "kern/segment.bpf.h"
#include "law/rx_window.h"

#define ARRIVALS 32 /* a power of 2 */
#define ARRIVAL_US 1024 /* what comes within it is one: a tick of most senders' clocks */

/* Data that came from the sender. */
struct gateway_arrival {
	u32 end; /* the sequence number behind it */
	u32 tsval, tsecr;
	u32 us; /* our clock: the newest packet, */
	u32 since_us; /* the first */
};

/* What a SYN says of its end. */
struct gateway_end {
	u8 seen, stamped, scaled, scale;
	u8 fin; /* it has sent its FIN */
};

/* The kernel takes no type with bit fields beside a lock: so the law's state is bytes here, and
 * gateway_law() what they are. */
struct gateway_connection {
	/* Under the lock: */
	u32 newest; /* counts the arrivals */
	struct gateway_arrival arrivals[ARRIVALS];
	u32 mss; /* bytes: the largest packet so far */
	u32 sent; /* the sequence number behind all that the sender has sent */
	u8 sends; /* it has sent something */
	u8 deciding; /* an ACK of it is with the law */
	u32 ack; /* the newest that the host has sent */
	u32 edge; /* the right edge that was advertised: never taken back */
	u64 received; /* bytes that the host has acknowledged */

	/* Without: */
	struct gateway_end host, remote;
	struct gateway_end again; /* a later SYN of the remote, which the host has not answered */
	u8 scale; /* of the host's window field */
	u8 agreed; /* the handshake is over, and it has timestamps */
	u8 left; /* it is left alone */
	u64 heard_ns; /* our clock: its last segment, */
	u64 syn_ns; /* ... its last SYN */
	u32 rtt_us; /* the handshake's */
	u32 answered_us; /* our clock: the arrival of the newest data that the host has answered */
	u32 published_us;
	u64 record; /* key of its record in `flows`; 0: none */
	u64 held_us;
	u8 law[sizeof(struct rx)] __attribute__((aligned(8)));
	u32 drains, yields, losses; /* reactions */
};

/* What is in the table. A function that the verifier goes through once is not given the lock. */
struct gateway_entry {
	struct bpf_spin_lock lock;
	struct gateway_connection of;
};

static __always_inline struct rx *gateway_law(const struct gateway_connection *c)
{
	return (struct rx *)c->law;
}

/* The sender has sent this much: an ACK of more is false. Under the lock. */
static __always_inline void sent(struct gateway_connection *c, const struct segment *s)
{
	u32 end = s->seq + s->payload + !!(s->flags & FIN);

	if (!c->sends || law_after(end, c->sent))
		c->sent = end;
	c->sends = 1;
}

/* Data came: it joins the newest arrival, or is a new one. Under the lock. */
static __always_inline void arrive(struct gateway_connection *c, const struct segment *s,
				   u32 now_us)
{
	struct gateway_arrival *at = &c->arrivals[c->newest & (ARRIVALS - 1)];

	if (!c->newest || now_us - at->since_us >= ARRIVAL_US) {
		c->newest = c->newest + 1 ?: 1;
		at = &c->arrivals[c->newest & (ARRIVALS - 1)];
		at->since_us = now_us;
	}
	at->end = s->seq + s->payload;
	at->tsval = s->options.tsval;
	at->tsecr = s->options.tsecr;
	at->us = now_us;
	c->mss = law_max(c->mss, s->size);
}

/* The newest arrival that the host has answered, as it has all before @end; the oldest that is
 * remembered, if that is newer. Returns whether it is answered. Under the lock. */
static __always_inline bool answered(const struct gateway_connection *c, u32 end,
				     struct gateway_arrival *out)
{
	const struct gateway_arrival *at = NULL;
	u32 newest = c->newest;

	for (u32 i = 0; i < ARRIVALS && i < newest; i++) {
		at = &c->arrivals[(newest - i) & (ARRIVALS - 1)];
		if (!law_after(at->end, end))
			break;
	}
	if (!at)
		return false;
	*out = *at;
	return !law_after(at->end, end);
}

#endif
