/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shared maps, and the mechanism that keeps a flow's record in `flows`, its
 * counters in `stats` and its changes in `events`. A controller adds its own part
 * of the record; everything else is here. kern/totals.bpf.h adds up what flows did.
 *
 * Cost: a hash look-up for each record that is written (every 10 ms at the most), one for the totals
 * of its cgroup and one for those of its rule, none per ACK. If the map is full, a new flow is not
 * shown and its bytes are not in the totals; it is counted, and the connection is not affected.
 */
#ifndef CCBPF_KERN_FLOW_BPF_H
#define CCBPF_KERN_FLOW_BPF_H

#include "kern/events.bpf.h"
#include "kern/flows.bpf.h"
#include "kern/identity.bpf.h"
#include "kern/socket.bpf.h"
#include "kern/totals.bpf.h"
#include "law/fixed.h"

/* A record is rewritten at the first ACK after this many units of 1024 us. */
#define FLOW_PUBLISH_KIUS 9

#define FLOW_IDLE_KIUS 196 /* 200 ms, the minimum RTO (net/ipv4/tcp.h) */

/* Atomic: a softirq may count on the same CPU in the middle of a close(). */
#define flow_count(counter)                                     \
	do {                                                    \
		struct ccbpf_stats *__s = flow_stats();         \
		if (__s)                                        \
			__sync_fetch_and_add(&__s->counter, 1); \
	} while (0)

static __always_inline struct ccbpf_stats *flow_stats(void)
{
	u32 kind = identity.kind;

	return bpf_map_lookup_elem(&stats, &kind);
}

/* The kernel's own state, which every controller's record shows. */
static __always_inline void flow_fill(struct tcp_sock *tp, struct ccbpf_flow *f)
{
	u32 interval_us = tp->rate_interval_us;

	totals_add_up(tp, f);
	f->updated_ns = tp->tcp_mstamp * 1000;
	f->mss = tp->mss_cache;
	f->ecn = sock_ecn(tp);
	f->cwnd = tp->snd_cwnd;
	f->ssthresh = tp->snd_ssthresh;
	f->srtt_us = tp->srtt_us >> SRTT_SHIFT;
	f->retransmits = tp->total_retrans;
	f->bytes_acked = tp->bytes_acked;
	if (interval_us)
		f->rate_bps = (u64)tp->rate_delivered * tp->mss_cache * 8000000 / interval_us;
}

/* The phase of a window that grows, in slow start or after it; a controller knows more phases. */
static __always_inline enum ccbpf_phase flow_phase(struct tcp_sock *tp)
{
	return sock_in_slow_start(tp) ? CCBPF_PHASE_SLOW_START : CCBPF_PHASE_AVOIDANCE;
}

/* A new record; also for a socket that changes its controller. */
static __noinline int flow_open(struct sock *sk, const char *name)
{
	struct sock_common *c = &sk->__sk_common;
	struct tcp_sock *tp = tcp_of(sk);
	struct ccbpf_flow f = {};
	u64 key = flow_key(sk);

	__builtin_memcpy(f.controller, name, CCBPF_NAME_LEN);
	f.instance = identity.instance;
	f.kind = identity.kind;
	f.started_ns = bpf_ktime_get_ns();
	f.netns = c->skc_net.net->ns.inum;
	f.family = c->skc_family;
	f.local_port = c->skc_num;
	f.remote_port = __builtin_bswap16(c->skc_dport);
	flow_addresses(sk, f.local_addr, f.remote_addr);
	flow_fill(tp, &f);
	flow_count(flows_opened);
	totals_opened(sk, &f);
	if (bpf_map_update_elem(&flows, &key, &f, BPF_ANY))
		flow_count(flows_untracked);
	return 0;
}

static __always_inline void flow_close(struct sock *sk)
{
	u64 key = flow_key(sk);

	totals_closed(sk);
	bpf_map_delete_elem(&flows, &key);
	flow_count(flows_closed);
}

struct flow_event {
	u32 type; /* enum ccbpf_event_type */
	u32 rtt_us;
	u32 delay_us;
	u32 a; /* see ccbpf/event.h */
	u32 b;
};

/* The addresses of an event's flow. A socket that closes has given back its port, and after a
 * reset its addresses too; its record still has them. */
static __always_inline void flow_event_ends(struct sock *sk, struct ccbpf_event *out)
{
	struct sock_common *c = &sk->__sk_common;
	struct ccbpf_flow *f = c->skc_num ? NULL : flow_of(sk);

	out->family = c->skc_family;
	if (f) {
		out->local_port = f->local_port;
		out->remote_port = f->remote_port;
		__builtin_memcpy(out->local_addr, f->local_addr, 16);
		__builtin_memcpy(out->remote_addr, f->remote_addr, 16);
		return;
	}
	out->local_port = c->skc_num;
	out->remote_port = __builtin_bswap16(c->skc_dport);
	flow_addresses(sk, out->local_addr, out->remote_addr);
}

static __noinline int flow_event(struct sock *sk, const struct flow_event *e)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct ccbpf_event *out;

	if (!flow_listened())
		return 0;
	out = bpf_ringbuf_reserve(&events, sizeof(*out), 0);
	if (!out) {
		flow_count(events_dropped);
		return 0;
	}
	__builtin_memset(out, 0, sizeof(*out));
	out->time_ns = bpf_ktime_get_ns();
	out->flow = flow_key(sk);
	out->instance = identity.instance;
	out->kind = identity.kind;
	out->type = e->type;
	flow_event_ends(sk, out);
	out->cwnd = tp->snd_cwnd;
	out->ssthresh = tp->snd_ssthresh;
	out->rtt_us = e->rtt_us;
	out->delay_us = e->delay_us;
	out->a = e->a;
	out->b = e->b;
	bpf_ringbuf_submit(out, 0);
	return 0;
}

/* Is it time to write the record again? */
static __always_inline bool flow_due(struct tcp_sock *tp, u32 *published_kius)
{
	u32 now_kius = tp->tcp_mstamp >> KIUS_SHIFT;

	if (law_likely(now_kius - *published_kius < FLOW_PUBLISH_KIUS))
		return false;
	*published_kius = now_kius;
	return true;
}

/* A packet leaves, and none was in flight: has the flow been idle for longer than
 * max(FLOW_IDLE_KIUS, 2 RTT), so that its measurements are out of date? */
static __always_inline bool flow_idle(struct tcp_sock *tp, u32 published_kius)
{
	u32 now_kius = tp->tcp_mstamp >> KIUS_SHIFT;
	u32 two_rtt_kius = sock_srtt_us(tp) >> (KIUS_SHIFT - 1);

	return now_kius - published_kius > law_max(FLOW_IDLE_KIUS, two_rtt_kius);
}

/* During a repair the kernel does not call cong_avoid(); and while every ACK carries ECE it never
 * does. So the beginning of a repair, once per RTT, is noted in the record that was written just
 * before. */
static __always_inline void flow_repairs(struct sock *sk, u32 ssthresh)
{
	struct ccbpf_flow *f = flow_of(sk);

	if (!f)
		return;
	f->phase = CCBPF_PHASE_RECOVERY;
	f->ssthresh = ssthresh;
}

/* Count and report a reduction that the kernel asked for, because of a loss or an ECN echo. @e:
 * has the RTT and the delay. */
static __always_inline void flow_reduced(struct sock *sk, struct flow_event *e, bool loss, u32 to)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct tcp_sock *tp = tcp_of(sk);

	if (loss)
		flow_count(losses);
	else
		flow_count(marks);
	totals_reduced(sk, loss);
	e->type = loss ? CCBPF_EVENT_LOSS : CCBPF_EVENT_MARK;
	e->a = loss ? tp->snd_ssthresh : tp->snd_cwnd;
	e->b = to;
	flow_event(sk, e);
	if (f) {
		f->losses += loss;
		f->marks += !loss;
	}
}

/* Count and report that the kernel took a reduction back. */
static __always_inline void flow_undone(struct sock *sk, struct flow_event *e, u32 given_back)
{
	struct ccbpf_flow *f = flow_of(sk);

	flow_count(undos);
	if (f)
		f->undos++;
	e->type = CCBPF_EVENT_UNDO;
	e->a = given_back;
	flow_event(sk, e);
}

#endif
