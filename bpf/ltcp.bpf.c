// SPDX-License-Identifier: GPL-2.0-only
/*
 * LTCP: a flow on a fast long path, which grows and yields as several flows would.
 *
 * S. Bhandarkar, S. Jain, A. L. N. Reddy: "LTCP: Improving the Performance of TCP in
 * Highspeed Networks", 2006. Section, equation and figure numbers are those of the paper.
 *
 *	measure	 RTT_min, the smallest round trip of the last minutes       (3)
 *	decide	 the layer K:  W_K <= w < W_K+1,
 *		 W_K = W_T K (K + 1) (K - 1) / 6, W_T = 50            (eq. 11)
 *	act	 w += K_R K for each window of ACKs, K_R = (RTT_min / RTT_ref)^(1/3)
 *	loss	 w -= beta w, beta = 0.15: at most one layer up to K = 19
 *
 *	             W_2 = 50        W_3 = 200       W_4 = 500
 *	  layer 1        |    layer 2    |    layer 3    |
 *	  RENO: +1, 1/2  |    + 2 K_R    |    + 3 K_R    |  + 4 K_R ...
 *	  per RTT        |    - 15 %     |    - 15 %     |  - 15 %
 *
 * More aggressive than reno above W_T, by design: so it is RESTRICTED, only processes with
 * CAP_NET_ADMIN may select it.
 *
 * Deviations from the paper:
 *
 *  1. Up to W_T the flow is reno, in its decrease too. The text gives every window the same
 *     beta, but figure 2 prints a speed-up of 1 at W_2; and where windows are that small, a
 *     flow that only ever gives up 15 % is no good neighbour. The price: a flow below W_T
 *     beside a larger LTCP flow fares as TCP beside LTCP (figure 12), until its window grows
 *     beyond W_T between two losses.
 *  2. K_R is proportional to the cube root of RTT_min; the paper does not print the factor.
 *     RTT_ref = 10 ms is what its figures imply, at 120 ms: the loss rates of figure 7 (500
 *     Mbit/s to 2.4 Gbit/s) imply 4.1, 6.6 and 10 ms, TCP's shares in figure 12 (100 Mbit/s
 *     to 1 Gbit/s) 22, 10 and 8.7 (test_layers.py). Figure 13's law does not depend on it
 *     while it is below both round trips.
 *  3. K_R is at least 1 and counts from the second layer on: below W_T "LTCP has similar
 *     increase behavior as TCP" (3.1).
 *  4. RTT_min ages in two halves of 90 s, where the paper has the flow's lowest sample: so
 *     a route that became longer is noticed.
 *  5. beta is not limited where it would take two layers, from K = 20 on: the decrease stays
 *     multiplicative (eq. 4), as all of 3.3 supposes.
 *  6. An ECN echo is answered as a loss (RFC 3168), and so is a timeout: ssthresh by beta,
 *     and the kernel's slow start up to it.
 *  7. The window only grows while it is what limits the flow (the case of RFC 7661).
 *  8. gentle_start (off): slow start is half as fast, and ends when the delay rises (after
 *     RFC 9406). Otherwise slow start is the kernel's (section 3).
 *  9. Condition 3 (the larger flow needs longer to regain what a loss took) is shown for
 *     flows that the loss leaves two layers apart (eq. 6 to 10), and assumed for all. It
 *     does not hold for two flows that the loss leaves in neighbouring layers, K and K - 1,
 *     with windows closer than K to K - 1: the larger one is back first. There two flows of
 *     one RTT settle, at 3 to 2 with windows around 235, 4 to 3 around 570, within 10 % from
 *     2000 on; elsewhere they become equal (test_layers.py).
 */
#include "kern/flow.bpf.h"
#include "kern/gentle.bpf.h"
#include "kern/params.bpf.h"
#include "law/aged.h"
#include "law/layers.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(ltcp);

struct ltcp_params params SEC(".data.params") = { LTCP_PARAMS(PARAM_DEFAULT) };

LTCP_PARAMS(PARAM_GETTER)

/* A connection's state, in icsk_ca_priv. */
struct ltcp {
	struct layers layers;
	struct gentle_start gentle;
	struct aged rtt; /* us: RTT_min */
	u32 rtt_us; /* us: last valid sample */
	u32 rtt_min_us; /* us: the RTT_min and the RTT_ref of K_R */
	u32 rtt_ref_us;
	u32 turned_kius; /* 1024 us: this half of the memory began */
	u32 published_kius; /* 1024 us: the record was written */
	u32 loss_cwnd; /* packets: what a loss took and undo may give back */
	u8 avoiding : 1; /* slow start is behind us */
	u8 open : 1; /* init() has run: the kernel calls ssthresh() before,
		      * when it has to send its SYN again */
};

_Static_assert(sizeof(struct ltcp) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

static __always_inline struct ltcp *ltcp_of(struct sock *sk)
{
	return ca_of(sk);
}

/* us: the last packet's delay above RTT_min */
static __always_inline u32 ltcp_queue_us(struct ltcp *l)
{
	return l->rtt_us > l->rtt_min_us ? l->rtt_us - l->rtt_min_us : 0;
}

static __always_inline struct flow_event ltcp_event(struct ltcp *l)
{
	return (struct flow_event){
		.rtt_us = l->rtt_us,
		.delay_us = ltcp_queue_us(l),
	};
}

static __always_inline void ltcp_tell(struct sock *sk, struct ltcp *l, u32 type, u32 a, u32 b)
{
	struct flow_event e = ltcp_event(l);

	e.type = type;
	e.a = a;
	e.b = b;
	flow_event(sk, &e);
}

/* --- measure ----------------------------------------------------------- */

/* RTT_min or RTT_ref changed: compute K_R anew. */
static __noinline int ltcp_compensate(struct sock *sk)
{
	struct ltcp *l = ltcp_of(sk);

	l->rtt_min_us = aged_min(&l->rtt);
	l->rtt_ref_us = param_rtt_ref();
	l->layers.kr_q12 = layers_kr_q12(l->rtt_min_us, l->rtt_ref_us);
	return 0;
}

/* Take this ACK's round trip. Only in state Open: in other states the newest packet that arrived
 * may be a retransmission. */
static __always_inline void ltcp_measure(struct sock *sk, struct ltcp *l)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 now_kius = tp->tcp_mstamp >> KIUS_SHIFT;
	u32 rtt_us = law_min(sock_rtt_us(tp), LAYERS_RTT_MAX_US);

	if (law_unlikely(sock_ca_state(sk) != TCP_CA_Open || !rtt_us))
		return;
	if (law_unlikely(now_kius - l->turned_kius >= param_rtt_memory() * KIUS_PER_S / 2)) {
		l->turned_kius = now_kius;
		aged_turn(&l->rtt, AGED_NO_MIN);
	}
	l->rtt_us = rtt_us;
	aged_put_min(&l->rtt, rtt_us);
	if (law_unlikely(aged_min(&l->rtt) != (s32)l->rtt_min_us ||
			 param_rtt_ref() != l->rtt_ref_us))
		ltcp_compensate(sk);
}

/* --- decide ------------------------------------------------------------ */

static __noinline int ltcp_place(struct sock *sk)
{
	struct ltcp *l = ltcp_of(sk);
	u32 was = l->layers.layer;

	if (layers_place(&l->layers, tcp_of(sk)->snd_cwnd, param_layer_window()))
		ltcp_tell(sk, l, CCBPF_EVENT_LAYER, was, l->layers.layer);
	return 0;
}

/* In which layer is the window? */
static __always_inline void ltcp_layer(struct sock *sk, struct ltcp *l)
{
	if (law_unlikely(!layers_at(&l->layers, tcp_of(sk)->snd_cwnd, param_layer_window())))
		ltcp_place(sk);
}

/* --- act --------------------------------------------------------------- */

static __noinline int ltcp_gentle_left(struct sock *sk)
{
	struct ltcp *l = ltcp_of(sk);

	l->avoiding = 1;
	gentle_left(tcp_of(sk));
	ltcp_tell(sk, l, CCBPF_EVENT_SLOW_START_END, l->rtt_us, l->gentle.base_us);
	return 0;
}

static __always_inline void ltcp_grow(struct sock *sk, struct ltcp *l, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 window;

	if (!sock_cwnd_limited(tp))
		return;
	if (law_unlikely(sock_in_slow_start(tp)))
		acked = gentle_slow_start(sk, l, l->rtt_us, param_gentle_start(), ltcp_gentle_left,
					  acked);
	ltcp_layer(sk, l);
	if (!acked)
		return;
	if (law_unlikely(l->layers.layer == 1)) {
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
		return;
	}
	window = layers_grow(&l->layers, tp->snd_cwnd, acked);
	if (law_unlikely(window != tp->snd_cwnd)) {
		window = law_min(window, tp->snd_cwnd_clamp) ?: 1;
		l->layers.window = window;
		tp->snd_cwnd = window;
	}
}

/* --- publish ------------------------------------------------------------ */

static __always_inline enum ccbpf_phase ltcp_phase(struct sock *sk)
{
	if (sock_ca_state(sk) >= TCP_CA_CWR)
		return CCBPF_PHASE_RECOVERY;
	return flow_phase(tcp_of(sk));
}

static __noinline int ltcp_fill(struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct ltcp *l = ltcp_of(sk);

	ltcp_layer(sk, l);
	if (!f)
		return 0;
	flow_fill(tcp_of(sk), f);
	f->phase = ltcp_phase(sk);
	f->rtt_us = l->rtt_us;
	f->rtt_min_us = l->rtt_min_us;
	f->delay_us = ltcp_queue_us(l);
	f->ltcp.layer = l->layers.layer;
	f->ltcp.layer_begin = l->layers.begin;
	f->ltcp.layer_end = l->layers.end;
	f->ltcp.rtt_factor_permille = (l->layers.kr_q12 * 1000 + LAYERS_ONE / 2) >> LAYERS_Q;
	return 0;
}

static __always_inline void ltcp_publish(struct sock *sk, struct ltcp *l)
{
	if (law_unlikely(flow_due(tcp_of(sk), &l->published_kius)))
		ltcp_fill(sk);
}

/* --- the ops ------------------------------------------------------------ */

SEC("struct_ops")
void BPF_PROG(ltcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct ltcp *l = ltcp_of(sk);

	ltcp_measure(sk, l);
	ltcp_grow(sk, l, acked);
	ltcp_publish(sk, l);
}

SEC("struct_ops")
__u32 BPF_PROG(ltcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct ltcp *l = ltcp_of(sk);
	bool loss = sock_lost(tp);
	struct flow_event e;
	u32 to;

	if (!l->open)
		return sock_reno_ssthresh(tp);
	to = layers_reduced(tp->snd_cwnd, param_layer_window(), param_decrease());
	e = ltcp_event(l);
	flow_reduced(sk, &e, loss, to);
	l->avoiding = 1;
	l->loss_cwnd = loss ? tp->snd_cwnd : 0;
	ltcp_fill(sk);
	flow_repairs(sk, to);
	return to;
}

SEC("struct_ops")
__u32 BPF_PROG(ltcp_undo_cwnd, struct sock *sk)
{
	struct ltcp *l = ltcp_of(sk);
	u32 now = tcp_of(sk)->snd_cwnd, cwnd = law_max(now, l->loss_cwnd);
	struct flow_event e = ltcp_event(l);

	flow_undone(sk, &e, cwnd - now);
	return cwnd ?: 1;
}

SEC("struct_ops")
void BPF_PROG(ltcp_init, struct sock *sk)
{
	static const char name[CCBPF_NAME_LEN] = "ltcp";
	struct tcp_sock *tp = tcp_of(sk);
	struct ltcp *l = ltcp_of(sk);

	layers_init(&l->layers);
	gentle_open(tp, &l->gentle, param_gentle_start());
	aged_reset(&l->rtt, AGED_NO_MIN);
	l->rtt_us = 0;
	l->rtt_min_us = 0;
	l->rtt_ref_us = 0;
	l->turned_kius = tp->tcp_mstamp >> KIUS_SHIFT;
	l->published_kius = 0;
	l->loss_cwnd = 0;
	l->avoiding = tp->snd_ssthresh < TCP_INFINITE_SSTHRESH;
	l->open = 1;
	flow_open(sk, name);
	ltcp_tell(sk, l, CCBPF_EVENT_OPENED, sock_ecn(tp), sock_timestamps(tp));
	ltcp_fill(sk);
}

SEC("struct_ops")
void BPF_PROG(ltcp_release, struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct ltcp *l = ltcp_of(sk);

	if (!l->open)
		return; /* before Linux 6.14 also without init() */
	l->open = 0;
	ltcp_tell(sk, l, CCBPF_EVENT_CLOSED, 0, f ? f->losses : 0);
	flow_close(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops ltcp = {
	.cong_avoid = (void *)ltcp_cong_avoid,
	.ssthresh = (void *)ltcp_ssthresh,
	.undo_cwnd = (void *)ltcp_undo_cwnd,
	.init = (void *)ltcp_init,
	.release = (void *)ltcp_release,
	.name = "ltcp",
};
