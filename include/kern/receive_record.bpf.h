/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `ccbpf flows` shows of a connection whose receive window is held (kern/receive.bpf.h): its
 * record in `flows`, and the account of the run that it belongs to.
 */
#ifndef CCBPF_KERN_RECEIVE_RECORD_BPF_H
#define CCBPF_KERN_RECEIVE_RECORD_BPF_H

#include "ccbpf/controllers.h"
#include "ccbpf/rule.h"
#include "kern/download.bpf.h"
#include "kern/life.bpf.h"
#include "kern/receive_totals.bpf.h"

/* bytes: what one unit of the window field is */
static __always_inline u32 window_unit(struct tcp_sock *tp)
{
	struct tcp_options_received *rx = &tp->rx_opt;

	return 1 << BPF_CORE_READ_BITFIELD(rx, rcv_wscale);
}

static __noinline int record_open(struct tcp_sock *tp, u64 key, u64 instance)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct sock_common *c = &sk->__sk_common;
	struct ccbpf_flow f = { .controller = CCBPF_RECEIVER, .kind = CCBPF_KIND_rx_le };

	f.instance = instance;
	f.started_ns = f.updated_ns = bpf_ktime_get_ns();
	f.netns = c->skc_net.net->ns.inum;
	f.family = c->skc_family;
	f.local_port = c->skc_num;
	f.remote_port = __builtin_bswap16(c->skc_dport);
	flow_addresses(sk, f.local_addr, f.remote_addr);
	life_set_cgroup(&f, sk);
	return bpf_map_update_elem(&flows, &key, &f, BPF_ANY);
}

static __noinline int record_fill(struct tcp_sock *tp, struct receive *r)
{
	u64 key = r->key;
	struct ccbpf_flow *f = bpf_map_lookup_elem(&flows, &key);

	if (!f)
		return 0;
	totals_received(f, tp->tcp_mstamp * 1000, r->counted, r->drains, r->yields, r->losses);
	f->updated_ns = tp->tcp_mstamp * 1000;
	f->ecn = sock_ecn(tp);
	f->bytes_acked = r->counted;
	f->indications = r->drains + r->yields;
	f->cuts_to_one = r->yields;
	f->losses = r->losses;
	f->undos = r->undos;
	f->rx.held_ms = r->held_us / 1000;
	f->rx.scale_bytes = window_unit(tp);
	download_fill(f, &r->rx, r->mss);
	return 0;
}

static __always_inline void count_received(struct tcp_sock *tp, struct receive *r,
					   struct ccbpf_run_counts *account)
{
	u64 bytes = payload(tp);

	if (account)
		__sync_fetch_and_add(&account->received, bytes - r->counted);
	r->counted = bytes;
}

static __always_inline void count_time(struct receive *r, u32 passed_us,
				       struct ccbpf_run_counts *account)
{
	bool held = rx_holds(&r->rx);

	if (held)
		r->held_us += passed_us;
	if (!account)
		return;
	__sync_fetch_and_add(&account->receiving_ns, passed_us * 1000ull);
	if (held)
		__sync_fetch_and_add(&account->receiving_held_ns, passed_us * 1000ull);
}

static __always_inline void publish(struct tcp_sock *tp, struct receive *r,
				    struct ccbpf_run_counts *account)
{
	u32 now_us = tp->tcp_mstamp, passed_us = now_us - r->published_us;
	bool received = payload(tp) != r->counted;

	if (law_likely(passed_us < PUBLISH_US))
		return;
	r->published_us = now_us;
	if (received && passed_us <= GAP_MOST_US)
		count_time(r, passed_us, account);
	count_received(tp, r, account);
	record_fill(tp, r);
}

#endif
