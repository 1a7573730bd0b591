// SPDX-License-Identifier: GPL-2.0-only
/*
 * rx_lp: downloads in the background, from any sender. A sockops program at the cgroup of
 * `ccbpf run --download`: it advertises a receive window that yields, as TCP-LP's congestion
 * window does (law/rx_window.h), to rising one-way delay of what it receives. Kuzmanovic and
 * Knightly, IEEE/ACM ToN 2006, figure 3; RFC 9840 for what a receiver must do otherwise.
 *
 *	established	 timestamps agreed?  no: left alone, and counted
 *			                     yes: state in the socket's storage, and the flag that
 *	                                     makes the kernel call us for each segment
 *	each segment	 HDR_OPT_LEN_CB, after the data that it answers was taken and before the
 *			 kernel selects the window: so what we set is in this very segment
 *	   measure	 one-way delay, of TSval and arrival
 *	   decide, act	 rx_step()
 *	   set		 TCP_WINDOW_CLAMP, where it is not what the law wants: autotuning
 *			 raises it
 *	   publish	 a record in `flows`, and the account of the run, every 9 ms
 *	closed		 the record goes
 *
 * Where a receiver's window differs from a sender's:
 *
 *  1. No header option is written: of BPF_SOCK_OPS_HDR_OPT_LEN_CB only the moment is used.
 *  2. A segment that recvmsg() or the timer of delayed ACKs makes is later than its data: no
 *     delay is taken of it (FRESH_JIFFIES).
 *  3. At the connection's beginning the kernel's window stays until LEAST_BYTES have arrived:
 *     what brings less is no download.
 *  4. At connect() a clamp of SCALE_CLAMP keeps the window scale at 9 or below, because the
 *     rounding of a large scale moves the right edge more than a cut does. It allows windows
 *     of 32 MB. An accepted connection has its listener's scale.
 *  5. Writing the clamp has a floor of its own in the kernel: 1152 bytes, and less than that
 *     is never asked for.
 *  6. A clamp stays with its socket when the program goes. So a run that is ended before its
 *     connections (`ccbpf clean --all`) opens their windows first: `opening` of the account.
 *
 * Cost: nothing for a segment that is received, and one call for each that is sent.
 */
#include "ccbpf/controllers.h"
#include "ccbpf/rule.h"
#include "kern/choose.bpf.h"
#include "kern/flows.bpf.h"
#include "kern/receive.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define LEAST_BYTES 3000 /* two segments */
#define SCALE_CLAMP (16 << 20)
#define FRESH_JIFFIES 1
#define PUBLISH_US 9216 /* as kern/flow.bpf.h: 9 units of 1024 us */
#define SOCK_DONE 1 /* include/net/sock.h, enum sock_flags: the peer's FIN came */
#define GAP_MOST_US 2000000 /* more is a pause of the application, or of the sender */

const volatile struct ccbpf_run run SEC(".rodata.run") = { .abi = CCBPF_RULE_ABI };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ccbpf_run_counts);
} counts SEC(".maps");

static __always_inline struct ccbpf_run_counts *account(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

/* bytes that were received: the kernel counts the peer's FIN as one */
static __always_inline u64 payload(struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	return tp->bytes_received - !!(sk->__sk_common.skc_flags & 1 << SOCK_DONE);
}

/* bytes: what one unit of the window field is */
static __always_inline u32 window_unit(struct tcp_sock *tp)
{
	struct tcp_options_received *rx = &tp->rx_opt;

	return 1 << BPF_CORE_READ_BITFIELD(rx, rcv_wscale);
}

/* --- the record, and the account -------------------------------------------------- */

static __noinline int record_open(struct tcp_sock *tp, u64 key)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct sock_common *c = &sk->__sk_common;
	struct ccbpf_flow f = { .controller = "rx_lp", .kind = CCBPF_KIND_rx_lp };

	f.instance = run.started_ns;
	f.started_ns = f.updated_ns = bpf_ktime_get_ns();
	f.netns = c->skc_net.net->ns.inum;
	f.family = c->skc_family;
	f.local_port = c->skc_num;
	f.remote_port = __builtin_bswap16(c->skc_dport);
	if (c->skc_family == AF_INET6) {
		bpf_probe_read_kernel(f.local_addr, 16, &c->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(f.remote_addr, 16, &c->skc_v6_daddr);
	} else {
		*(__be32 *)f.local_addr = c->skc_rcv_saddr;
		*(__be32 *)f.remote_addr = c->skc_daddr;
	}
	return bpf_map_update_elem(&flows, &key, &f, BPF_ANY);
}

static __always_inline enum ccbpf_phase phase_of(const struct rx *x, u32 now_us, u32 mss)
{
	if (!x->avoiding)
		return CCBPF_PHASE_SLOW_START;
	if (x->hole)
		return CCBPF_PHASE_RECOVERY;
	if (inference_left_us(&x->inference, now_us))
		return CCBPF_PHASE_INFERENCE;
	return x->window <= RX_LEAST_SEGMENTS * mss ? CCBPF_PHASE_SMALL : CCBPF_PHASE_AVOIDANCE;
}

static __noinline int record_fill(struct tcp_sock *tp, struct receive *r)
{
	u32 mss = tp->inet_conn.icsk_ack.rcv_mss ?: 1;
	u64 key = r->key;
	struct rx *x = &r->rx;
	struct delay_params p;
	struct ccbpf_flow *f = bpf_map_lookup_elem(&flows, &key);

	if (!f)
		return 0;
	rx_params(x, &p);
	f->updated_ns = tp->tcp_mstamp * 1000;
	f->mss = mss;
	f->phase = phase_of(x, tp->tcp_mstamp, mss);
	f->delay_source = x->clock.tick_ns ? CCBPF_SIGNAL_OWD : CCBPF_SIGNAL_RTT;
	f->cwnd = x->window / mss;
	f->rtt_us = f->srtt_us = x->rtt_us;
	f->rtt_min_us = x->rtt_min_us;
	f->delay_us = x->queue_us;
	f->delay_smoothed_us = delay_smoothed(&x->delay);
	f->delay_threshold_us = delay_threshold(&x->delay, &p);
	f->delay_max_us = delay_queue_max(&x->delay);
	f->rate_bps = (u64)x->flight * 8000000 / (x->rtt_us ?: 1);
	f->bytes_acked = tp->bytes_acked;
	f->indications = r->halves + r->leasts;
	f->cuts_to_one = r->leasts;
	f->losses = r->losses;
	f->rx.received = r->counted;
	f->rx.held_ms = r->held_us / 1000;
	f->rx.window_bytes = x->window;
	f->rx.flight_bytes = x->flight;
	f->rx.scale_bytes = window_unit(tp);
	f->rx.inference_left_us = x->avoiding ? inference_left_us(&x->inference, tp->tcp_mstamp)
					      : 0;
	f->rx.peer_tick_ns = x->clock.tick_ns;
	return 0;
}

static __always_inline void count_received(struct tcp_sock *tp, struct receive *r,
					   struct ccbpf_run_counts *to)
{
	u64 bytes = payload(tp);

	__sync_fetch_and_add(&to->received, bytes - r->counted);
	r->counted = bytes;
}

static __always_inline void publish(struct tcp_sock *tp, struct receive *r,
				    struct ccbpf_run_counts *to)
{
	u32 now_us = tp->tcp_mstamp, passed_us = now_us - r->published_us;
	bool received = payload(tp) != r->counted;

	if (law_likely(passed_us < PUBLISH_US))
		return;
	r->published_us = now_us;
	if (received && passed_us <= GAP_MOST_US) {
		__sync_fetch_and_add(&to->receiving_ns, passed_us * 1000ull);
		if (rx_holds(&r->rx, now_us, tp->inet_conn.icsk_ack.rcv_mss)) {
			__sync_fetch_and_add(&to->receiving_held_ns, passed_us * 1000ull);
			r->held_us += passed_us;
		}
	}
	count_received(tp, r, to);
	record_fill(tp, r);
}

/* --- the window ------------------------------------------------------------------- */

static __always_inline void read_ack(struct tcp_sock *tp, struct rx_ack *a)
{
	struct tcp_options_received *rx = &tp->rx_opt;

	a->long_us = tp->tcp_mstamp;
	a->now_us = tp->tcp_mstamp;
	a->our_ts = tp->tcp_mstamp * 1000 / compat_our_tick_ns(tp);
	a->tsval = rx->rcv_tsval;
	a->tsecr = rx->rcv_tsecr;
	a->rcv_nxt = tp->rcv_nxt;
	a->left = tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;
	a->mss = tp->inet_conn.icsk_ack.rcv_mss ?: 1;
	a->unit = window_unit(tp);
	a->rtt_us = sock_srtt_us(tp);
	a->fresh = (u32)bpf_jiffies64() - tp->inet_conn.icsk_ack.lrcvtime <= FRESH_JIFFIES;
	a->hole = tp->out_of_order_queue.rb_node;
	if ((s32)a->left < 0)
		a->left = 0;
}

static __noinline int decide(struct receive *r, const struct rx_ack *a)
{
	enum rx_verdict verdict = rx_step(&r->rx, a);

	r->halves += verdict == RX_HALVE;
	r->leasts += verdict == RX_TO_LEAST;
	r->losses += verdict == RX_LOSS;
	return 0;
}

static __always_inline void set_window(struct bpf_sock_ops *ctx, struct tcp_sock *tp, u32 window)
{
	int clamp = window;

	if (tp->window_clamp == window && tp->rcv_ssthresh <= window)
		return;
	bpf_setsockopt(ctx, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
}

static __always_inline void segment(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
				    struct ccbpf_run_counts *to)
{
	struct receive *r = bpf_sk_storage_get(&receives, tp, NULL, 0);
	struct rx_ack a;

	if (!r || tp->bytes_received < LEAST_BYTES)
		return;
	if (law_unlikely(to->opening)) {
		set_window(ctx, tp, RX_MOST);
		return;
	}
	read_ack(tp, &a);
	if (law_unlikely(!r->rx.started)) {
		rx_init(&r->rx, &a);
		record_open(tp, r->key);
		choose_count(to, receivers);
	}
	decide(r, &a);
	set_window(ctx, tp, rx_window(&r->rx, &a));
	publish(tp, r, to);
}

/* --- from the beginning to the end ------------------------------------------------ */

static __always_inline void connecting(struct bpf_sock_ops *ctx)
{
	int clamp = SCALE_CLAMP;

	bpf_setsockopt(ctx, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
}

static __always_inline void established(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					struct ccbpf_run_counts *to)
{
	struct receive *r;

	if (!sock_timestamps(tp)) {
		choose_count(to, unstamped);
		return;
	}
	r = bpf_sk_storage_get(&receives, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!r) {
		choose_count(to, unheld);
		return;
	}
	r->key = bpf_get_socket_cookie(ctx);
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG |
					       BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

static __always_inline void state_changed(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					  struct ccbpf_run_counts *to)
{
	struct receive *r = bpf_sk_storage_get(&receives, tp, NULL, 0);
	u64 key;

	if (!r || !r->rx.started)
		return;
	key = r->key;
	count_received(tp, r, to);
	if (ctx->args[1] == BPF_TCP_CLOSE || ctx->args[1] == BPF_TCP_LAST_ACK)
		bpf_map_delete_elem(&flows, &key);
}

SEC("sockops")
int ccbpf_rx_lp(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tp = choose_socket(ctx);
	struct ccbpf_run_counts *to = account();

	if (!tp || !to)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		connecting(ctx);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ctx, tp, to);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (ctx->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS)
			segment(ctx, tp, to);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		state_changed(ctx, tp, to);
		break;
	}
	return 1;
}
