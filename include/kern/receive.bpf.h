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
 *	   publish	 a record in `flows`, and the account of the run, every 9 ms; events
 *			 (kern/receive_events.bpf.h)
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
 *     of 32 MB. An accepted connection has its listener's scale. A smaller clamp of the program
 *     (TCP_WINDOW_CLAMP before it connects or listens) or of the route (`window`) stays, and
 *     bounds the window as long as the connection lives.
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
 * 10. Where an ACK has three SACK blocks its options are full, and the kernel does not call: until
 *     there are fewer holes the window stays as it was.
 *
 * Cost: nothing for a segment that is received, and one call for each that is sent.
 */
#ifndef CCBPF_KERN_RECEIVE_BPF_H
#define CCBPF_KERN_RECEIVE_BPF_H

#include "kern/choose.bpf.h"
#include "kern/receive_events.bpf.h"

#define SCALE_CLAMP (16 << 20)
#define CLAMP_LEAST 1152
#define FRESH_JIFFIES 1
#define SHUTDOWN_MASK 3 /* include/net/sock.h: the application has closed it */
#define SOCK_RCVBUF_LOCK 2 /* include/net/sock.h: its program has set SO_RCVBUF */
#define WINDOW_FIELD_MOST 0xffff
#define RTAX_WINDOW 3 /* include/uapi/linux/rtnetlink.h */
#define DST_METRICS_FLAGS 3UL /* include/net/dst.h: bits of the address */

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
 * third of the instructions on Linux 6.18). Returns enum rx_verdict. */
__noinline int decide(struct receive *r, const struct rx_ack *a)
{
	enum rx_verdict verdict;
	bool undoable;

	if (!r || !a)
		return 0;
	undoable = r->rx.undoable;
	verdict = rx_step(&r->rx, a);

	r->drains += verdict == RX_DRAINED;
	r->yields += verdict == RX_YIELDED;
	r->losses += verdict == RX_LOSS;
	r->undos += verdict == RX_GROW && undoable && !r->rx.undoable;
	return verdict;
}

static __always_inline void decide_and_tell(struct receive *r, const struct rx_ack *a)
{
	struct receive_before before;

	receive_see(r, &before);
	receive_tell(r, &before, decide(r, a));
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

/* bytes: the window that the route of a socket allows; 0: it does not say. Not inline, for the stack of
 * its caller. */
static __noinline u32 route_window(struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	unsigned long metrics = BPF_CORE_READ(sk, sk_dst_cache, _metrics) & ~DST_METRICS_FLAGS;
	u32 window;

	bpf_probe_read_kernel(&window, sizeof(window), (u32 *)metrics + RTAX_WINDOW - 1);
	return window;
}

/* At TCP_CONNECT_CB. */
static __always_inline void receive_at_connect(struct bpf_sock_ops *ctx, struct tcp_sock *tp)
{
	u32 own = tp->window_clamp ?: route_window(tp);
	int clamp = SCALE_CLAMP;

	if (own && own < SCALE_CLAMP)
		return;
	bpf_setsockopt(ctx, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
}

/* The kernel keeps callbacks on also where a socket is connected anew. */
static __always_inline void receive_forget(struct bpf_sock_ops *ctx, struct tcp_sock *tp)
{
	bpf_sk_storage_delete(&receives, tp);
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~RECEIVE_OURS);
}

/*
 * bytes: the window that its program or its route allows; RX_MOST: these do not say. Of a connection that is
 * just established the clamp is theirs, if it is not ours, nor the most that the field can say. With
 * SO_RCVBUF it is that of the buffer, which the kernel adapts to the packets.
 */
static __always_inline u32 allowed(struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u32 anyway = law_min(WINDOW_FIELD_MOST * window_unit(tp), SCALE_CLAMP);
	u32 clamp = tp->window_clamp;

	if (clamp >= anyway || BPF_CORE_READ_BITFIELD(sk, sk_userlocks) & SOCK_RCVBUF_LOCK)
		return RX_MOST;
	return clamp;
}

/* At ACTIVE_ESTABLISHED_CB and PASSIVE_ESTABLISHED_CB. */
static __always_inline void receive_begin(struct bpf_sock_ops *ctx, struct tcp_sock *tp, u32 rule,
					  struct ccbpf_choice_counts *counts)
{
	struct receive *r = receive_of(tp);
	u32 others;

	if (r)
		receive_forget(ctx, tp); /* of the connection that this socket had before */
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
	r->most = allowed(tp);
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
		if (record_open(tp, r->key, instance))
			receive_count(flows_untracked);
		totals_opened(r);
		receive_event(r, CCBPF_EVENT_OPENED, sock_ecn(tp), true);
	}
	if (law_unlikely(flow_listened()))
		decide_and_tell(r, &a);
	else
		decide(r, &a);
	set_window(ctx, tp, not_taken_back(tp, &a, law_min(rx_window(&r->rx, &a), r->most)));
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
		totals_last(tp, r);
		set_window(ctx, tp, r->most);
		receive_tell_closed(r);
	}
	bpf_map_delete_elem(&flows, &key);
	receive_forget(ctx, tp);
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
	totals_last(tp, r);
	if (ctx->args[1] == BPF_TCP_CLOSE || ctx->args[1] == BPF_TCP_LAST_ACK ||
	    sk->sk_shutdown == SHUTDOWN_MASK) {
		receive_tell_closed(r);
		bpf_map_delete_elem(&flows, &key);
	}
}

#endif
