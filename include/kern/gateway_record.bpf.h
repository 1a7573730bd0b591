/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The records of a gateway's downloads in `flows`. They are like those of kern/receive.bpf.h, which
 * have a socket to read.
 */
#ifndef CCBPF_KERN_GATEWAY_RECORD_BPF_H
#define CCBPF_KERN_GATEWAY_RECORD_BPF_H

#include "ccbpf/controllers.h"
#include "kern/download.bpf.h"
#include "kern/download_totals.bpf.h"
#include "kern/gateway_state.bpf.h"
#include "kern/life.bpf.h"

#define KEY_SHIFT 32 /* CCBPF_RECEIVED_BY_GATEWAY */

static const struct ccbpf_flow no_flow = {};

static __always_inline u64 gateway_instance(u32 id)
{
	return CCBPF_RECEIVED_BY_GATEWAY | (u64)id << KEY_SHIFT;
}

static __always_inline bool is_ipv4(const u32 *address)
{
	return !address[0] && !address[1] && address[2] == bpf_htonl(0xffff);
}

/* As a record has it: IPv4 in the first four bytes. */
static __always_inline void put_address(u8 *to, const u32 *address, bool v4)
{
	if (v4)
		__builtin_memcpy(to, &address[3], 4);
	else
		__builtin_memcpy(to, address, 16);
}

/* Its key is drawn; if another record has it, the next call draws again. */
__noinline int gateway_open(const struct ccbpf_gateway_key *key, struct gateway_connection *c,
			    u32 id, u32 netns)
{
	u64 record = gateway_instance(id) | bpf_get_prandom_u32();
	struct ccbpf_flow *f;
	bool v4;

	if (!key || !c)
		return 0;
	if (bpf_map_update_elem(&flows, &record, &no_flow, BPF_NOEXIST))
		return 0;
	f = bpf_map_lookup_elem(&flows, &record);
	if (!f)
		return 0;
	v4 = is_ipv4(key->host) && is_ipv4(key->remote);
	__builtin_memcpy(f->controller, CCBPF_RECEIVER, sizeof(CCBPF_RECEIVER));
	f->kind = CCBPF_KIND_rx_le;
	f->instance = gateway_instance(id);
	f->started_ns = f->updated_ns = bpf_ktime_get_ns();
	f->netns = netns;
	f->family = v4 ? AF_INET : AF_INET6;
	f->local_port = key->host_port;
	f->remote_port = key->remote_port;
	put_address(f->local_addr, key->host, v4);
	put_address(f->remote_addr, key->remote, v4);
	totals_begun(f);
	c->record = record;
	return 0;
}

/* Not inline, for the stack of its caller. */
static __noinline int totals_gateway_last(const struct gateway_connection *c)
{
	totals_ended(c->record, bpf_ktime_get_ns(), c->received, c->drains, c->yields, c->losses);
	return 0;
}

static __always_inline void gateway_close(const struct gateway_connection *c)
{
	u64 record = c->record;

	totals_gateway_last(c);
	if (record)
		bpf_map_delete_elem(&flows, &record);
}

/* Returns whether there is a record. */
static __always_inline bool gateway_fill(const struct gateway_connection *c)
{
	u64 record = c->record;
	struct ccbpf_flow *f = bpf_map_lookup_elem(&flows, &record);

	if (!f)
		return false;
	totals_received(f, bpf_ktime_get_ns(), c->received, c->drains, c->yields, c->losses);
	f->updated_ns = bpf_ktime_get_ns();
	f->bytes_acked = c->received;
	f->indications = c->drains + c->yields;
	f->cuts_to_one = c->yields;
	f->losses = c->losses;
	f->rx.held_ms = c->held_us / 1000;
	f->rx.scale_bytes = 1 << c->scale;
	download_fill(f, gateway_law(c), c->mss);
	return true;
}

#endif
