/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Downloads in the background, from any sender, by a sockops program: it advertises a receive
 * window that yields, as the congestion window of `le` does (law/rx_window.h), to rising one-way
 * delay of what it receives. RFC 9840 has what a receiver must do otherwise. Whose connections
 * these are is the program's business: bpf/rx_le.bpf.c, bpf/assign.bpf.c, bpf/unit.bpf.c,
 * bpf/rx_moved.bpf.c.
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
 *     delay is taken of it (FRESH_JIFFIES), nor of one that answers no new data.
 *  3. At the connection's beginning the kernel's window stays until LEAST_BYTES have arrived:
 *     what brings less is no download.
 *  4. At connect() a clamp of SCALE_CLAMP keeps the window scale at 9 or below, because the
 *     rounding of a large scale moves the right edge more than a cut does. It allows windows
 *     of 32 MB. An accepted connection has its listener's scale.
 *  5. The kernel's least clamp is 1152 bytes (SOCK_MIN_RCVBUF / 2): smaller segments have that
 *     window. While the advertised window is 0 the clamp stays as it is: before Linux 6.7 (and its
 *     stable relatives) the kernel would never open such a window again (tcp_set_window_clamp()).
 *  6. The segment size is the largest that came: the kernel's estimate falls with a few small
 *     messages, and a window below the sender's segment would stop it.
 *  7. A clamp stays with its socket when the program goes. So the windows are opened first: by the
 *     iterator bpf/rx_open.bpf.c, and where it does not come, with the next segment (receive_end()).
 *  8. Where net.ipv4.tcp_shrink_window is 1 the kernel would follow a smaller clamp at once, and drop
 *     what is in flight beyond it. There the clamp follows what is left of the window.
 *  9. Of two programs at nested cgroups the inner one wins, which is called first: a connection
 *     for which a program asks for HDR_OPT_LEN_CB already is left to that.
 *
 * Cost: nothing for a segment that is received, and one call for each that is sent.
 */
#ifndef CCBPF_KERN_RECEIVE_BPF_H
#define CCBPF_KERN_RECEIVE_BPF_H

#include "ccbpf/controllers.h"
#include "kern/choose.bpf.h"
#include "kern/flows.bpf.h"
#include "law/rx_window.h"

#define TCP_WINDOW_CLAMP 10 /* include/uapi/linux/tcp.h */
#define LEAST_BYTES 3000 /* two segments */
#define SCALE_CLAMP (16 << 20)
#define CLAMP_LEAST 1152
#define FRESH_JIFFIES 1
#define PUBLISH_US 9216 /* as kern/flow.bpf.h: 9 units of 1024 us */
#define SOCK_DONE 1 /* include/net/sock.h, enum sock_flags: the peer's FIN came */
#define SHUTDOWN_MASK 3 /* include/net/sock.h: the application has closed it */
#define GAP_MOST_US 2000000 /* more is a pause of the application, or of the sender */

/* What makes the kernel call us. */
#define RECEIVE_CALLBACKS (BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)

struct receive {
	u32 rule; /* its id; the first member: bpf/chosen.bpf.c */
	u32 callbacks; /* which of RECEIVE_CALLBACKS were switched on for it */
	u32 mss; /* bytes: the largest segment so far */
	struct rx rx;
	u64 key; /* of its record in `flows`: the socket's cookie, which is no address */
	u64 counted; /* bytes that are in the account */
	u64 held_us;
	u32 published_us; /* our clock */
	u32 drains, yields, losses; /* reactions */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct receive);
} receives SEC(".maps");

static __always_inline struct receive *receive_of(struct tcp_sock *tp)
{
	return bpf_sk_storage_get(&receives, tp, NULL, 0);
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
	if (c->skc_family == AF_INET6) {
		bpf_probe_read_kernel(f.local_addr, 16, &c->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(f.remote_addr, 16, &c->skc_v6_daddr);
	} else {
		*(__be32 *)f.local_addr = c->skc_rcv_saddr;
		*(__be32 *)f.remote_addr = c->skc_daddr;
	}
	return bpf_map_update_elem(&flows, &key, &f, BPF_ANY);
}

static __always_inline enum ccbpf_phase phase_of(const struct rx *x)
{
	if (!x->avoiding)
		return CCBPF_PHASE_SLOW_START;
	if (x->hole)
		return CCBPF_PHASE_RECOVERY;
	if (rx_small(x))
		return CCBPF_PHASE_SMALL;
	return x->law.stage == LE_FREE ? CCBPF_PHASE_AVOIDANCE : CCBPF_PHASE_INFERENCE;
}

static __always_inline void rx_fill(struct tcp_sock *tp, const struct receive *r,
				    struct ccbpf_flow_rx *own)
{
	const struct rx *x = &r->rx;

	own->held_ms = r->held_us / 1000;
	own->window_bytes = rx_bytes(x, r->mss);
	own->flight_bytes = x->flight;
	own->scale_bytes = window_unit(tp);
	own->back_bytes = (x->law.back_q8 >> LE_Q8_SHIFT) * r->mss;
	own->peer_tick_ns = x->clock.tick_ns;
	own->noise_us = noise_us(&x->noise);
	own->packet_us = x->spacing.packet_us;
}

static __noinline int record_fill(struct tcp_sock *tp, struct receive *r)
{
	u32 mss = r->mss;
	u64 key = r->key;
	struct rx *x = &r->rx;
	struct ccbpf_flow *f = bpf_map_lookup_elem(&flows, &key);

	if (!f)
		return 0;
	f->updated_ns = tp->tcp_mstamp * 1000;
	f->mss = mss;
	f->phase = phase_of(x);
	f->delay_source = x->clock.tick_ns ? CCBPF_SIGNAL_OWD : CCBPF_SIGNAL_RTT;
	f->cwnd = x->packets;
	f->rtt_us = f->srtt_us = x->rtt_us;
	f->rtt_min_us = x->rtt_min_us;
	f->delay_us = x->queue_us;
	f->delay_smoothed_us = le_us(x->law.q);
	f->delay_threshold_us = rx_threshold(x);
	f->delay_max_us = le_us(x->law.most);
	f->rate_bps = (u64)x->flight * 8000000 / (x->rtt_us ?: 1);
	f->bytes_acked = r->counted;
	f->indications = r->drains + r->yields;
	f->cuts_to_one = r->yields;
	f->losses = r->losses;
	rx_fill(tp, r, &f->rx);
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

/* --- the window ------------------------------------------------------------------- */

static __always_inline void read_ack(struct tcp_sock *tp, struct receive *r, struct rx_ack *a)
{
	struct tcp_options_received *rx = &tp->rx_opt;

	a->long_us = tp->tcp_mstamp;
	a->now_us = tp->tcp_mstamp;
	a->our_ts = tp->tcp_mstamp * 1000 / compat_our_tick_ns(tp);
	a->tsval = rx->rcv_tsval;
	a->tsecr = rx->rcv_tsecr;
	a->rcv_nxt = tp->rcv_nxt;
	a->left = tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;
	a->mss = r->mss = law_forget(law_max(law_max(r->mss, tp->inet_conn.icsk_ack.rcv_mss), 1));
	a->unit = window_unit(tp);
	a->rtt_us = sock_srtt_us(tp);
	a->hole = law_forget(tp->out_of_order_queue.rb_node != 0);
	a->fresh =
		law_forget(sock_stamped(tp) && (a->hole || tp->rcv_nxt != r->rx.rcv_nxt) &&
			   (u32)bpf_jiffies64() - tp->inet_conn.icsk_ack.lrcvtime <= FRESH_JIFFIES);
	a->again = law_forget(BPF_CORE_READ_BITFIELD(rx, dsack));
	a->left = law_forget((s32)a->left < 0 ? 0 : a->left);
}

/* Not static: so the verifier goes through it once, and not for each state of its caller (a
 * third of the instructions on Linux 6.18). */
__noinline int decide(struct receive *r, const struct rx_ack *a)
{
	enum rx_verdict verdict;

	if (!r || !a)
		return 0;
	verdict = rx_step(&r->rx, a);

	r->drains += verdict == RX_DRAINED;
	r->yields += verdict == RX_YIELDED;
	r->losses += verdict == RX_LOSS;
	return 0;
}

/* bytes: @window, where the kernel would take back what is advertised not less than that */
static __always_inline u32 not_taken_back(struct tcp_sock *tp, const struct rx_ack *a, u32 window)
{
	return law_unlikely(compat_shrinks_window(tp)) ? law_max(window, a->left) : window;
}

static __always_inline void set_window(struct bpf_sock_ops *ctx, struct tcp_sock *tp, u32 window)
{
	int clamp = window = law_max(window, CLAMP_LEAST);

	if (!tp->rcv_wnd || (tp->window_clamp == window && tp->rcv_ssthresh <= window))
		return;
	bpf_setsockopt(ctx, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
}

/* --- from the beginning to the end ------------------------------------------------ */

/* At TCP_CONNECT_CB. */
static __always_inline void receive_at_connect(struct bpf_sock_ops *ctx)
{
	int clamp = SCALE_CLAMP;

	bpf_setsockopt(ctx, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
}

/* The kernel keeps callbacks on also where a socket is connected anew. */
static __always_inline void receive_forget(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					   struct receive *r)
{
	u32 ours = r->callbacks;

	bpf_sk_storage_delete(&receives, tp);
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~ours);
}

/* At ACTIVE_ESTABLISHED_CB and PASSIVE_ESTABLISHED_CB. */
static __always_inline void receive_begin(struct bpf_sock_ops *ctx, struct tcp_sock *tp, u32 rule,
					  struct ccbpf_choice_counts *counts)
{
	struct receive *r = receive_of(tp);
	u32 others;

	if (r)
		receive_forget(ctx, tp, r); /* of the connection that this socket had before */
	others = ctx->bpf_sock_ops_cb_flags;
	if (others & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)
		return;
	if (!sock_timestamps(tp)) {
		choose_count(counts, unstamped);
		return;
	}
	r = bpf_sk_storage_get(&receives, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!r) {
		choose_count(counts, unheld);
		return;
	}
	r->rule = rule;
	r->callbacks = RECEIVE_CALLBACKS & ~others;
	r->key = bpf_get_socket_cookie(ctx);
	bpf_sock_ops_cb_flags_set(ctx, others | RECEIVE_CALLBACKS);
}

/*
 * At HDR_OPT_LEN_CB. `instance`: of its record. `account`: of a run, or NULL. Returns whether its
 * window is in the background from now on, and was not before.
 */
static __always_inline bool receive_segment(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					    struct receive *r, u64 instance,
					    struct ccbpf_run_counts *account)
{
	struct rx_ack a;
	bool begins;

	if (tp->bytes_received < LEAST_BYTES)
		return false;
	read_ack(tp, r, &a);
	begins = !r->rx.started;
	if (law_unlikely(begins)) {
		rx_init(&r->rx, &a);
		record_open(tp, r->key, instance);
	}
	decide(r, &a);
	set_window(ctx, tp, not_taken_back(tp, &a, rx_window(&r->rx, &a)));
	publish(tp, r, account);
	return begins;
}

/* At HDR_OPT_LEN_CB, in its place: the window opens, and nothing is remembered; a window of 0 opens
 * with a later segment. The account has what came until now. */
static __always_inline void receive_end(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					struct receive *r, struct ccbpf_run_counts *account)
{
	u64 key = r->key;

	if (r->rx.started && !tp->rcv_wnd)
		return;
	if (r->rx.started) {
		count_received(tp, r, account);
		set_window(ctx, tp, RX_MOST);
	}
	bpf_map_delete_elem(&flows, &key);
	receive_forget(ctx, tp, r);
}

/* At the same moments as receive_begin(), where it is not wanted: what is remembered is of the
 * connection that this socket had before. */
static __always_inline void receive_not(struct bpf_sock_ops *ctx, struct tcp_sock *tp)
{
	struct receive *r = receive_of(tp);

	if (law_unlikely(r))
		receive_end(ctx, tp, r, NULL);
}

/* At STATE_CB. */
static __always_inline void receive_state(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					  struct ccbpf_run_counts *account)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct receive *r = receive_of(tp);
	u64 key;

	if (!r || !r->rx.started)
		return;
	key = r->key;
	count_received(tp, r, account);
	if (ctx->args[1] == BPF_TCP_CLOSE || ctx->args[1] == BPF_TCP_LAST_ACK ||
	    sk->sk_shutdown == SHUTDOWN_MASK)
		bpf_map_delete_elem(&flows, &key);
}

#endif
