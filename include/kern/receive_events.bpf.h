/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The events of a download for `ccbpf trace`. They are found by comparing the law's state before and
 * after a segment, and only while somebody listens:
 *
 *	the first segment of a download			opened
 *	the sender's clock has another tick		clock
 *	a delay that stood still is a longer path	rebase
 *	START ends					slow-start-end
 *	RX_DRAINED					indication
 *	RX_YIELDED					cut-to-one
 *	RX_LOSS						loss
 *	what a loss took is given back			undo
 *	JUDGE: the queue was its own			inference-end
 *	SMALL: others keep no queue any more		small-leave
 *	the connection ends, or is let go		closed
 *
 * A connection that has no record in `flows`, because the map was full, has no events.
 */
#ifndef CCBPF_KERN_RECEIVE_EVENTS_BPF_H
#define CCBPF_KERN_RECEIVE_EVENTS_BPF_H

#include "kern/events.bpf.h"
#include "kern/receive_record.bpf.h"

/* The law's state before a segment, as far as events show it. */
struct receive_before {
	u32 packets, rtt_min_us, tick_ns;
	u8 stage;
	bool small, avoiding, undoable;
};

/* Downloads have a row in `stats` as controllers have. */
#define receive_count(counter)                                  \
	({                                                      \
		u32 __kind = CCBPF_KIND_rx_le;                  \
		struct ccbpf_stats *__s;                        \
                                                                \
		__s = bpf_map_lookup_elem(&stats, &__kind);     \
		if (__s)                                        \
			__sync_fetch_and_add(&__s->counter, 1); \
	})

static __always_inline void event_fill(struct ccbpf_event *out, const struct ccbpf_flow *f,
				       const struct receive *r)
{
	__builtin_memset(out, 0, sizeof(*out));
	out->time_ns = bpf_ktime_get_ns();
	out->flow = r->key;
	out->instance = f->instance;
	out->kind = CCBPF_KIND_rx_le;
	out->family = f->family;
	out->local_port = f->local_port;
	out->remote_port = f->remote_port;
	__builtin_memcpy(out->local_addr, f->local_addr, 16);
	__builtin_memcpy(out->remote_addr, f->remote_addr, 16);
	out->cwnd = r->rx.packets;
	out->ssthresh = r->rx.return_to;
	out->rtt_us = r->rx.rtt_us;
	out->delay_us = r->rx.queue_us;
}

/* Not static, so that the verifier goes through it once. @type: enum ccbpf_event_type; @a, @b: see
 * there. */
__noinline int receive_event(struct receive *r, u32 type, u32 a, u32 b)
{
	struct ccbpf_event *out;
	struct ccbpf_flow *f;
	u64 key;

	if (!r || !flow_listened())
		return 0;
	key = r->key;
	f = bpf_map_lookup_elem(&flows, &key);
	if (!f)
		return 0;
	out = bpf_ringbuf_reserve(&events, sizeof(*out), 0);
	if (!out) {
		receive_count(events_dropped);
		return 0;
	}
	event_fill(out, f, r);
	out->type = type;
	out->a = a;
	out->b = b;
	bpf_ringbuf_submit(out, 0);
	return 0;
}

static __always_inline void receive_see(const struct receive *r, struct receive_before *b)
{
	const struct rx *x = &r->rx;

	b->packets = x->packets;
	b->rtt_min_us = x->rtt_min_us;
	b->tick_ns = x->clock.tick_ns;
	b->stage = x->law.stage;
	b->small = rx_small(x);
	b->avoiding = x->avoiding;
	b->undoable = x->undoable;
}

/* What was measured. */
static __always_inline void tell_path(struct receive *r, const struct receive_before *b)
{
	const struct rx *x = &r->rx;

	if (x->clock.tick_ns != b->tick_ns)
		receive_event(r, CCBPF_EVENT_CLOCK, x->clock.tick_ns, b->tick_ns);
	if (b->small && x->rtt_min_us > b->rtt_min_us)
		receive_event(r, CCBPF_EVENT_REBASE, x->rtt_min_us - b->rtt_min_us, x->rtt_min_us);
	if (x->avoiding && !b->avoiding)
		receive_event(r, CCBPF_EVENT_SLOW_START_END, x->rtt_us, x->rtt_min_us);
}

/* Without a reaction. */
static __always_inline void tell_growth(struct receive *r, const struct receive_before *b)
{
	const struct rx *x = &r->rx;

	if (b->undoable && !x->undoable)
		receive_event(r, CCBPF_EVENT_UNDO, x->packets, 0);
	else if (b->small && !rx_small(x))
		receive_event(r, CCBPF_EVENT_SMALL_LEAVE, x->return_to, 0);
	else if (b->stage == LE_JUDGE && x->law.stage == LE_FREE)
		receive_event(r, CCBPF_EVENT_INFERENCE_END, 0, 0);
}

/* Not static, as receive_event(). @verdict: enum rx_verdict */
__noinline int receive_tell(struct receive *r, const struct receive_before *b, u32 verdict)
{
	u32 q_us, t_us;

	if (!r || !b)
		return 0;
	q_us = le_us(r->rx.law.q);
	t_us = rx_threshold(&r->rx);
	tell_path(r, b);
	if (verdict == RX_DRAINED)
		receive_event(r, CCBPF_EVENT_INDICATION, q_us, t_us);
	else if (verdict == RX_YIELDED)
		receive_event(r, CCBPF_EVENT_CUT_TO_ONE, q_us, t_us);
	else if (verdict == RX_LOSS)
		receive_event(r, CCBPF_EVENT_LOSS, b->packets, r->rx.packets);
	else
		tell_growth(r, b);
	return 0;
}

/* The record is about to go. */
static __always_inline void receive_tell_closed(struct receive *r)
{
	receive_event(r, CCBPF_EVENT_CLOSED, r->drains + r->yields, r->losses);
}

#endif
