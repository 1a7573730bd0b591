// SPDX-License-Identifier: GPL-2.0-only
/*
 * The receiver: which segments it has, and when it acknowledges them (net/ipv4/tcp_input.c, tcp_data_queue() and
 * __tcp_ack_snd_check(); net/ipv4/tcp_output.c, tcp_send_delayed_ack()). Its application reads at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "download.h"

#define RING_FIRST 4096
#define DELACK_MAX_US 200000
#define BLOCKS_MOST 8

static void receiver_ack(struct flow *f, bool fresh);

static void delayed_ack_due(void *flow)
{
	struct flow *f = flow;

	if (f->peer.rcv_nxt != f->peer.rcv_wup)
		receiver_ack(f, false);
}

static u8 *ring_new(struct flow *f, u32 size)
{
	u8 *got = calloc(size, 1);

	if (!got) {
		fprintf(stderr, "simulator: out of memory for the receiver of flow %s\n", f->name);
		exit(2);
	}
	return got;
}

void receiver_init(struct flow *f, u64 seed)
{
	struct receiver *r = &f->peer;

	r->ring = RING_FIRST;
	r->got = ring_new(f, r->ring);
	r->quick = TCP_MAX_QUICKACKS;
	r->ato_us = TCP_DELACK_MIN_US;
	r->clock_offset_us = seed >> 32;
	timer_init(&r->delayed, delayed_ack_due, f);
}

static void ring_grow(struct flow *f)
{
	struct receiver *r = &f->peer;
	u32 size = 2 * r->ring;
	u8 *got = ring_new(f, size);

	for (u32 i = 0; i < r->ring; i++)
		got[(r->rcv_nxt + i) & (size - 1)] = r->got[(r->rcv_nxt + i) & (r->ring - 1)];
	free(r->got);
	r->got = got;
	r->ring = size;
}

/* --- ACKs --------------------------------------------------------------- */

u32 receiver_stamp(const struct receiver *r)
{
	double us = (double)(engine_now_ns - engine_start_ns) / 1e3 * (1 + r->clock_drift);

	return (u32)((r->clock_offset_us + (u64)us) / 1000);
}

/* The TSval of an ACK. One that lies tells of each packet that it met no queue. */
static u32 told_stamp(struct receiver *r)
{
	u32 now_ms = receiver_stamp(r);

	if (now_ms - r->last_tsval < r->least_ms)
		r->least_ms = now_ms - r->last_tsval;
	if (!r->lies_ns || engine_now_ns < r->lies_ns)
		return now_ms;
	return r->last_tsval + r->least_ms;
}

static void put_sacks(const struct receiver *r, struct packet *p)
{
	u32 n = 0;

	if (r->dsack) {
		p->dsack = true;
		p->sack[n].from = r->dsack_segment;
		p->sack[n++].to = r->dsack_segment + 1;
	}
	for (u32 i = 0; i < r->n_blocks && n < SACK_BLOCKS; i++) {
		p->sack[n].from = r->blocks[i].from;
		p->sack[n++].to = r->blocks[i].to;
	}
	p->sacks = (u8)n;
}

static void receiver_ack(struct flow *f, bool fresh)
{
	struct receiver *r = &f->peer;
	struct packet *p = packet_new();

	p->arrive = ack_arrive;
	p->owner = f;
	p->delay_ns = f->base_delay_ns ? *f->base_delay_ns : f->delay_ns;
	p->last_arrival_ns = &r->last_arrival_ns;
	p->bytes = FLOW_ACK_BYTES;
	p->index = r->rcv_nxt;
	p->tsval = told_stamp(r);
	if (r->download)
		download_ack(f, p->tsval, fresh);
	p->window = r->download ? download_advertised(f) : r->window;
	p->tsecr = r->ts_recent;
	p->ece = r->demand_cwr;
	put_sacks(r, p);
	r->dsack = false;
	r->pending_now = false;
	if (r->quick)
		r->quick--;
	r->rcv_wup = r->rcv_nxt;
	timer_clear(&r->delayed);
	way_send(f->reverse, p);
}

/* --- data --------------------------------------------------------------- */

/* A block joins the list of those out of order: the newest first, overlapping ones merged (RFC 2018). */
static void block_put(struct receiver *r, u32 index)
{
	u32 from = index, to = index + 1, kept = 0;

	for (u32 i = 0; i < r->n_blocks; i++) {
		if (r->blocks[i].from == to) {
			to = r->blocks[i].to;
		} else if (r->blocks[i].to == from) {
			from = r->blocks[i].from;
		} else if (!index_after(r->blocks[i].from, index) &&
			   index_after(r->blocks[i].to, index)) {
			from = r->blocks[i].from;
			to = r->blocks[i].to;
		} else {
			r->blocks[kept++] = r->blocks[i];
		}
	}
	if (kept == BLOCKS_MOST)
		kept--;
	memmove(&r->blocks[1], &r->blocks[0], kept * sizeof(r->blocks[0]));
	r->blocks[0].from = from;
	r->blocks[0].to = to;
	r->n_blocks = kept + 1;
}

static void blocks_drop_acked(struct receiver *r)
{
	u32 kept = 0;

	for (u32 i = 0; i < r->n_blocks; i++)
		if (index_after(r->blocks[i].to, r->rcv_nxt))
			r->blocks[kept++] = r->blocks[i];
	r->n_blocks = kept;
}

static void in_order(struct receiver *r)
{
	do {
		r->got[r->rcv_nxt & (r->ring - 1)] = 0;
		r->rcv_nxt++;
		r->delivered++;
	} while (r->got[r->rcv_nxt & (r->ring - 1)]);
	blocks_drop_acked(r);
}

/* tcp_event_data_recv(): the delay of ACKs follows the gaps of the data */
static void ato_update(struct flow *f)
{
	struct receiver *r = &f->peer;
	u64 gap_us = (engine_now_ns - r->last_data_ns) / NS_PER_US;

	if (r->last_data_ns) {
		if (gap_us <= TCP_DELACK_MIN_US / 2)
			r->ato_us = r->ato_us / 2 + TCP_DELACK_MIN_US / 2;
		else if (gap_us < r->ato_us)
			r->ato_us = r->ato_us / 2 + (u32)gap_us;
		else if (gap_us > 2 * f->delay_ns / NS_PER_US + TCP_RTO_MIN_US)
			r->quick = TCP_MAX_QUICKACKS;
	}
	r->last_data_ns = engine_now_ns;
}

static void ecn_take(struct receiver *r, const struct packet *p)
{
	if (p->cwr) {
		r->demand_cwr = false;
		r->pending_now = true;
	}
	if (p->ce && !r->demand_cwr) {
		r->demand_cwr = true;
		r->quick = r->quick > 2 ? r->quick : 2;
	}
}

static void delay_ack(struct flow *f)
{
	struct receiver *r = &f->peer;
	u32 rtt_us = (u32)(2 * f->delay_ns / NS_PER_US), most_us = DELACK_MAX_US;
	u64 at_ns;

	rtt_us = rtt_us > TCP_DELACK_MIN_US ? rtt_us : TCP_DELACK_MIN_US;
	most_us = rtt_us < most_us ? rtt_us : most_us;
	at_ns = engine_now_ns + (r->ato_us < most_us ? r->ato_us : most_us) * NS_PER_US;
	if (!r->delayed.at_ns || at_ns < r->delayed.at_ns)
		timer_set(&r->delayed, at_ns);
}

void receiver_arrive(struct packet *p)
{
	struct flow *f = p->owner;
	struct receiver *r = &f->peer;
	bool filled = false;

	while (index_after(p->index, r->rcv_nxt) && p->index - r->rcv_nxt >= r->ring)
		ring_grow(f);
	if (!index_after(p->index, r->rcv_wup) && (s32)(p->tsval - r->ts_recent) >= 0)
		r->ts_recent = p->tsval;
	r->last_tsval = p->tsval;
	r->last_tsecr = p->tsecr;
	ato_update(f);
	ecn_take(r, p);
	if (p->index == r->rcv_nxt) {
		filled = r->n_blocks;
		in_order(r);
	} else if (index_after(p->index, r->rcv_nxt) && !r->got[p->index & (r->ring - 1)]) {
		r->got[p->index & (r->ring - 1)] = 1;
		block_put(r, p->index);
	} else {
		r->dsack = true;
		r->dsack_segment = p->index;
		r->quick = TCP_MAX_QUICKACKS;
	}
	if (r->rcv_nxt - r->rcv_wup > 1 || r->n_blocks || filled || r->dsack || r->quick ||
	    r->pending_now || download_opens(f))
		receiver_ack(f, true);
	else
		delay_ack(f);
	packet_free(p);
}
