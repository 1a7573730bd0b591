/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The connections of a gateway: which are for it, how each begins, and when it is forgotten. bpf/gateway.bpf.c
 * is the specification.
 */
#ifndef CCBPF_KERN_GATEWAY_LIFE_BPF_H
#define CCBPF_KERN_GATEWAY_LIFE_BPF_H

#include "kern/gateway_record.bpf.h"

#define S_NS 1000000000ull
#define SWEEP_NS (10 * S_NS)
#define SILENT_NS (600 * S_NS)
#define HALF_OPEN_NS (60 * S_NS)

const volatile struct ccbpf_aqm_identity
	identity SEC(".rodata.identity") = { .abi = CCBPF_GATEWAY_ABI };
const volatile struct ccbpf_gateway_config config SEC(".rodata.config") = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ccbpf_gateway_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CCBPF_GATEWAY_CONNECTIONS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ccbpf_gateway_key);
	__type(value, struct gateway_entry);
} connections SEC(".maps");

/* A connection that begins. Bytes, because a lock has no place in such a map. */
static const u8 no_connection[sizeof(struct gateway_entry)] = {};
static u64 swept_ns;

#define count(member)                                                                  \
	do {                                                                           \
		u32 zero = 0;                                                          \
		struct ccbpf_gateway_counts *to = bpf_map_lookup_elem(&counts, &zero); \
                                                                                       \
		if (to)                                                                \
			to->member++;                                                  \
	} while (0)

/* --- which connections ------------------------------------------------------------ */

/* A prefix shorter than that of all IPv4 has only addresses of IPv6: ::/0 is not everything. */
static __always_inline bool lies_in(const u32 *address, const volatile struct ccbpf_prefix *prefix)
{
	const volatile u8 *to = prefix->address;
	const u8 *of = (const u8 *)address;
	u32 bits = prefix->bits;

	if (bits < CCBPF_MAPPED_BITS && is_ipv4(address))
		return false;
	for (u32 i = 0; i < 16; i++) {
		u32 left = bits > 8 * i ? bits - 8 * i : 0;
		u8 mask = left < 8 ? 0xff00 >> left : 0xff;

		if ((of[i] ^ to[i]) & mask)
			return false;
	}
	return true;
}

static __always_inline bool is_among(const u32 *address,
				     const volatile struct ccbpf_prefix *prefixes, u32 n)
{
	for (u32 i = 0; i < CCBPF_GATEWAY_PREFIXES && i < n; i++)
		if (lies_in(address, &prefixes[i]))
			return true;
	return !n;
}

/* Not static: the verifier goes through it once. */
__noinline bool is_wanted(const struct ccbpf_gateway_key *key)
{
	return key && is_among(key->host, config.hosts, config.n_hosts) &&
	       is_among(key->remote, config.remotes, config.n_remotes);
}

/* --- its life ---------------------------------------------------------------------- */

static __always_inline void forget(const struct ccbpf_gateway_key *key,
				   const struct gateway_connection *c)
{
	gateway_close(c);
	bpf_map_delete_elem(&connections, key);
}

static long forget_silent(void *map, const struct ccbpf_gateway_key *key,
			  struct gateway_entry *entry, const u64 *now)
{
	const struct gateway_connection *c = &entry->of;
	struct ccbpf_gateway_key copy = *key;

	/* Another CPU may have heard of it since: less than 0. */
	if ((s64)(*now - c->heard_ns) < (s64)(c->agreed ? SILENT_NS : HALF_OPEN_NS))
		return 0;
	forget(&copy, c);
	count(silent);
	return 0;
}

__noinline int sweep(void)
{
	u64 now = bpf_ktime_get_ns();

	if (now - swept_ns < SWEEP_NS)
		return 0;
	swept_ns = now;
	bpf_for_each_map_elem(&connections, forget_silent, &now, 0);
	return 0;
}

/* A SYN came, the first of the two: what was before it is another connection. */
static __always_inline struct gateway_entry *begin(const struct ccbpf_gateway_key *key)
{
	struct gateway_entry *before;

	if (!is_wanted(key))
		return NULL;
	sweep();
	before = bpf_map_lookup_elem(&connections, key);
	if (before)
		gateway_close(&before->of);
	if (bpf_map_update_elem(&connections, key, no_connection, BPF_ANY)) {
		count(full);
		return NULL;
	}
	return bpf_map_lookup_elem(&connections, key);
}

static __always_inline void note_end(struct gateway_end *end, const struct segment *s)
{
	end->seen = 1;
	end->stamped = s->options.stamped;
	end->scaled = s->options.scaled;
	end->scale = s->options.scale;
}

/* A SYN of a connection whose handshake is over. One of the host begins another connection. One from
 * outside may be forged: it counts when the host agrees to it by SYN|ACK. If it does not, it answers by
 * an ACK (RFC 5961, 4). */
static __always_inline struct gateway_entry *meet_again(const struct segment *s,
							struct gateway_entry *entry, bool by_host)
{
	struct gateway_end remote = entry->of.again;
	u64 syn_ns = entry->of.syn_ns;

	if (!(s->flags & ACK)) {
		if (by_host)
			return begin(&s->key);
		note_end(&entry->of.again, s);
		entry->of.syn_ns = bpf_ktime_get_ns();
		return NULL;
	}
	if (!by_host || !remote.seen)
		return NULL;
	entry = begin(&s->key);
	if (entry) {
		entry->of.remote = remote;
		entry->of.syn_ns = syn_ns;
	}
	return entry;
}

/* A SYN, by the host or by the sender. */
static __always_inline void meet(const struct segment *s, bool by_host)
{
	struct gateway_entry *entry = bpf_map_lookup_elem(&connections, &s->key);
	bool first = !(s->flags & ACK);
	u64 now = bpf_ktime_get_ns();
	struct gateway_connection *c;

	if (entry && entry->of.agreed)
		entry = meet_again(s, entry, by_host);
	else if (first)
		entry = begin(&s->key);
	if (!entry)
		return;
	c = &entry->of;
	note_end(by_host ? &c->host : &c->remote, s);
	if (!first)
		c->rtt_us = (now - c->syn_ns) / 1000;
	c->syn_ns = c->heard_ns = now;
}

/* Does a RST end it? One that comes must be the next that the host expects, or the next that the
 * sender sends: to others the host answers by an ACK (RFC 5961, 3). */
static __always_inline bool resets(const struct segment *s, const struct gateway_connection *c,
				   bool by_host)
{
	bool next = s->seq == c->ack || (c->sends && s->seq == c->sent);

	return s->flags & RST && (by_host || !c->agreed || next);
}

/* RST, or both ends have said that they are at their end; a FIN from outside must not be of the past.
 * Returns whether it is forgotten. */
static __always_inline bool part(const struct segment *s, struct gateway_connection *c,
				 bool by_host)
{
	struct gateway_end *end = by_host ? &c->host : &c->remote;

	if (s->flags & FIN && (by_host || !c->agreed || !law_after(c->ack, s->seq)))
		end->fin = 1;
	if (!resets(s, c, by_host) && (!c->host.fin || !c->remote.fin))
		return false;
	forget(&s->key, c);
	return true;
}

/* The handshake is over. Returns whether it is one for us. */
static __always_inline bool agree(struct gateway_connection *c)
{
	if (law_likely(c->agreed) || c->left)
		return !c->left;
	if (!c->host.seen || !c->remote.seen)
		return false;
	count(connections);
	if (!c->host.stamped || !c->remote.stamped) {
		c->left = 1;
		count(unstamped);
		return false;
	}
	c->scale = c->host.scaled && c->remote.scaled ? c->host.scale : 0;
	c->agreed = 1;
	return true;
}

#endif
