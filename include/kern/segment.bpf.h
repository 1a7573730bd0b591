/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A TCP segment as a tc program finds it: read, and its window written. What is not one whole
 * segment of TCP over IPv4 or IPv6 is not read: fragments, IP options and extension headers, VLAN
 * tags, lengths that do not fit, options that cannot be parsed.
 */
#ifndef CCBPF_KERN_SEGMENT_BPF_H
#define CCBPF_KERN_SEGMENT_BPF_H

#include "ccbpf/gateway.h"
#include "kern/compat.bpf.h"
#include "law/options.h"
#include <bpf/bpf_endian.h>

/* include/uapi/linux/if_ether.h, in.h; RFC 791, 8200, 9293 */
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define TCP 6
#define IPV4_LEN 20 /* without options */
#define IPV6_LEN 40
#define TCP_LEN 20
#define LENGTH_AT 12
#define FLAGS_AT 13
#define WINDOW_AT 14
#define CHECK_AT 16
#define NOT_WHOLE 0x3fff /* of IPv4: more fragments, or an offset */

#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16

struct segment {
	struct ccbpf_gateway_key key;
	u32 at; /* offset of the TCP header */
	u32 bytes; /* of it and what follows */
	u32 seq, ack;
	u32 payload;
	u32 size; /* payload of the largest packet in it */
	u16 window; /* the field, in host byte order */
	u8 flags;
	struct options options;
};

static __always_inline u16 be16_at(const u8 *head, u32 at)
{
	return head[at] << 8 | head[at + 1];
}

static __always_inline u32 be32_at(const u8 *head, u32 at)
{
	return (u32)be16_at(head, at) << 16 | be16_at(head, at + 2);
}

/* The addresses, of which the first is the source. */
static __always_inline void put_addresses(struct segment *s, const u8 *from, u32 bytes,
					  bool inwards)
{
	u32 *source = inwards ? s->key.remote : s->key.host;
	u32 *destination = inwards ? s->key.host : s->key.remote;

	if (bytes == 4)
		source[2] = destination[2] = bpf_htonl(0xffff);
	__builtin_memcpy((u8 *)source + 16 - bytes, from, bytes);
	__builtin_memcpy((u8 *)destination + 16 - bytes, from + bytes, bytes);
}

/* Where the kernel does not say the length of a packet larger than 64 KiB, it is all that is there. */
static __always_inline bool put_length(struct __sk_buff *ctx, struct segment *s, u32 head, u32 said)
{
	u32 there = ctx->len - s->at;

	if (said == head && ctx->gso_size)
		said = there;
	if (ctx->len < s->at || said > there || said < head + TCP_LEN)
		return false;
	s->at += head;
	s->bytes = said - head;
	return true;
}

static __always_inline bool read_ipv4(struct __sk_buff *ctx, struct segment *s, bool inwards)
{
	u8 head[IPV4_LEN];
	u16 total;

	if (bpf_skb_load_bytes(ctx, s->at, head, sizeof(head)))
		return false;
	if (head[0] != 0x45 || head[9] != TCP || be16_at(head, 6) & NOT_WHOLE)
		return false;
	put_addresses(s, head + 12, 4, inwards);
	total = be16_at(head, 2);
	return put_length(ctx, s, IPV4_LEN, total ?: IPV4_LEN);
}

static __always_inline bool read_ipv6(struct __sk_buff *ctx, struct segment *s, bool inwards)
{
	u8 head[IPV6_LEN];

	if (bpf_skb_load_bytes(ctx, s->at, head, sizeof(head)))
		return false;
	if (head[0] >> 4 != 6 || head[6] != TCP)
		return false;
	put_addresses(s, head + 8, 16, inwards);
	return put_length(ctx, s, IPV6_LEN, IPV6_LEN + be16_at(head, 4));
}

struct reading {
	struct options_header header;
	u32 length; /* bytes of it */
	struct options_walk walk;
};

static long read_option(u32 step, struct reading *r)
{
	return !options_step(&r->header, r->length, &r->walk);
}

static __always_inline bool read_tcp(struct __sk_buff *ctx, struct segment *s, bool inwards)
{
	struct reading r = {};
	const u8 *head = r.header.at;
	u16 source, destination;
	u32 length;

	if (bpf_skb_load_bytes(ctx, s->at + LENGTH_AT, r.header.at, 1))
		return false;
	length = law_hide(head[0] >> 4 << 2); /* so that the least is asked of what is passed */
	if (length < TCP_LEN || length > s->bytes)
		return false;
	if (bpf_skb_load_bytes(ctx, s->at, r.header.at, length))
		return false;
	source = be16_at(head, 0);
	destination = be16_at(head, 2);
	s->key.remote_port = inwards ? source : destination;
	s->key.host_port = inwards ? destination : source;
	s->seq = be32_at(head, 4);
	s->ack = be32_at(head, 8);
	s->flags = head[FLAGS_AT];
	s->window = be16_at(head, WINDOW_AT);
	s->payload = s->bytes - length;
	s->size = ctx->gso_size && ctx->gso_size < s->payload ? ctx->gso_size : s->payload;
	if (law_likely(options_usual(&r.header, length, &s->options)))
		return true;
	r.length = length;
	options_begin(&r.walk);
	bpf_loop(OPTIONS_MOST, read_option, &r, 0);
	return options_end(&r.header, &r.walk, &s->options);
}

/* Not static: the verifier goes through it once. @inwards: its source is beyond the device. */
__noinline bool segment_read(struct __sk_buff *ctx, struct segment *s, bool inwards)
{
	struct sk_buff *skb = compat_skb(ctx);
	bool whole;

	if (!s || ctx->vlan_present)
		return false;
	s->at = COMPAT_READ(skb, network_header) -
		(u32)(COMPAT_READ(skb, data) - COMPAT_READ(skb, head));
	switch (bpf_ntohs(ctx->protocol)) {
	case ETH_P_IP:
		whole = read_ipv4(ctx, s, inwards);
		break;
	case ETH_P_IPV6:
		whole = read_ipv6(ctx, s, inwards);
		break;
	default:
		return false;
	}
	return whole && read_tcp(ctx, s, inwards);
}

/* The window field becomes @window; the checksum stays as right, or as wrong, as it was. */
static __always_inline bool segment_set_window(struct __sk_buff *ctx, const struct segment *s,
					       u16 window)
{
	__be16 now = bpf_htons(window), was = bpf_htons(s->window);

	return !bpf_l4_csum_replace(ctx, s->at + CHECK_AT, was, now, sizeof(now)) &&
	       !bpf_skb_store_bytes(ctx, s->at + WINDOW_AT, &now, sizeof(now), 0);
}

#endif
