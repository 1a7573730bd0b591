// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCPW-LP: a background flow that counts its own packets in the queue, and asks
 * whose queue it is.
 *
 * H. Shimonishi, T. Hama, M. Sanadidi, M. Gerla, T. Murase: "TCP-Westwood
 * Low-Priority for Overlay QoS Mechanism", IEICE Trans. Commun. 2006. Sections are
 * its own.
 *
 *	measure	 D     = RTT - RTT_min
 *		 queue = w - ERE RTT_min = w D / RTT, ERE = w / RTT       (4.2)
 *		 Q_th  = M (1 - D / D_loss) (1 - D_min / D_max), M = 3    (4.3)
 *	decide	 queue > Q_th: early window reduction (EWR), once per RTT
 *	act	 EWR:  w = ERE RTT_min, D_min and D_max learn
 *		 loss: ssthresh = ERE RTT_min, w = min(w, ssthresh)       (4.1)
 *		 else: w += 1 per RTT
 *
 *	                    first loss                queue > Q_th: w = ERE RTT_min
 *	  SLOW START ----------------------> AVOIDANCE ---+
 *	  (the kernel's)                     ^  |  ^      |
 *	                                     |  |  +------+
 *	                     queue <= Q_th   |  v  w < 2
 *	                                    SMALL: a pair of packets per 2 * 4 / w RTT
 *
 * Always additive increase and reduction, never a window that is held: that lets
 * RTT_min be seen again (4.2).
 *
 * Where and why this is not the paper to the letter:
 *
 *  1. The RTT that counts is the smaller one of two in a row, in state Open, and
 *     not that of a packet that was alone, unless it is smaller still: one late ACK
 *     of a busy host, or a delayed one, is no queue (law/backlog.h). A D up to 500
 *     us is no queue either (at most half of D_loss).
 *  2. Q_th is at least 0.3 packets, what the paper shows beside Reno. D_min = D_max,
 *     all that a flow of a packet or two sees between two reductions, would make it
 *     0, for ever. D_loss does not learn from a loss at a D below D_max: with random
 *     loss it would become the D of an almost empty queue, and Q_th 0.
 *  3. RTT_min is forgotten after 90 to 180 s, as a path may become longer; a small
 *     window whose delay stands still takes it for one sooner (law/flat.h).
 *  4. EWR begins after the first loss: slow start is the kernel's, and its bursts are
 *     a queue of their own. RTT_min is learned from the first ACK on; D_min and
 *     D_max from there on, the first cycle begins with slow start's end. With
 *     gentle_start (off) slow start is slower and ends when the delay rises (RFC 9406).
 *     Where the window is not what limits the flow nothing may ever be lost: there
 *     slow start ends after a window of packets with a high delay (law/gentle_start.h).
 *  5. Fractions of the window after an EWR count: they go on in the kernel's counter
 *     of additive increase.
 *  6. Windows "almost 0" (5.2.1): below 2 packets, pairs of packets apart
 *     (law/small_window.h). A window of 1 per RTT is 1 to 3 % of the paper's link for
 *     each flow, and each such packet would meet a delayed ACK.
 *  7. The rate achieved is also counted as what is delivered (law/westwood.h), so
 *     that a path that drops without a queue is not taken for random loss. A mark
 *     (ECN) is never chance: it takes half at the least.
 *  8. Every EWR lowers ssthresh as well, or the kernel would slow-start back. Undo
 *     returns what a loss took and never an EWR.
 *  9. The window only grows while it is what limits the flow (RFC 7661's case).
 * 10. The kernel paces the flow from a base RTT of 2 ms on (kern/pace.bpf.h).
 */
#include "kern/flow.bpf.h"
#include "kern/gentle.bpf.h"
#include "kern/params.bpf.h"
#include "kern/small.bpf.h"
#include "law/backlog.h"
#include "law/flat.h"
#include "law/westwood.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(tcpw_lp);

struct tcpw_lp_params
	params SEC(".data.params") = { TCPW_LP_PARAMS(PARAM_DEFAULT) };
TCPW_LP_PARAMS(PARAM_GETTER)

enum tcpw_verdict {
	TCPW_GROW,
	TCPW_HOLD,
	TCPW_REDUCE,
};

/* A connection's state, in icsk_ca_priv. */
struct tcpw {
	struct backlog backlog;
	struct westwood westwood;
	struct gentle_start gentle;
	u32 window; /* packets: the policy's window while small, else 0 */
	u32 loss_cwnd; /* packets: what a loss took and undo may give back */
	u32 flat_us; /* us: first RTT of those that stand still, while small */
	u32 published_kius; /* 1024 us: the record was written */
	u8 avoiding : 1; /* slow start is behind us: EWR works */
	u8 paced : 1; /* we switched the kernel's pacing on */
	u8 undone : 1; /* the kernel may raise ssthresh over an EWR */
	u8 open : 1; /* init() was there: the kernel asks ssthresh() before,
		      * when it has to send its SYN again */
	u8 flat; /* samples that stand still, while small */
};

_Static_assert(sizeof(struct tcpw) <=
		       sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

static __always_inline struct tcpw *tcpw_of(struct sock *sk)
{
	return ca_of(sk);
}

static __always_inline void tcpw_params(struct backlog_params *p)
{
	p->most = param_backlog_max();
	p->least = param_backlog_min();
	p->averaging = param_averaging();
	p->memory_s = param_delay_memory();
	p->floor_us = param_noise_floor();
}

/* packets: the window the policy reasons about */
static __always_inline u32 tcpw_window(struct tcp_sock *tp, struct tcpw *t)
{
	return t->window ?: tp->snd_cwnd;
}

/* 1/256 packet: the same with the fraction that the kernel counts */
static __always_inline u64 tcpw_window_q8(struct tcp_sock *tp, struct tcpw *t)
{
	u32 cwnd = tp->snd_cwnd ?: 1, count = law_min(tp->snd_cwnd_cnt, cwnd);

	if (t->window)
		return (u64)t->window << BACKLOG_Q8_SHIFT;
	return ((u64)cwnd << BACKLOG_Q8_SHIFT) +
	       ((u64)count << BACKLOG_Q8_SHIFT) / cwnd;
}

static __always_inline u32 tcpw_delay_us(struct tcpw *t)
{
	return backlog_delay(&t->backlog, t->backlog.rtt_us);
}

static __always_inline u32 tcpw_gap_us(struct tcp_sock *tp, struct tcpw *t)
{
	u32 base_us = backlog_base(&t->backlog);

	return small_gap(tp, t->window, param_small_spread(),
			 base_us ?: sock_srtt_us(tp));
}

/* An event's beginning: where the flow stands. */
static __always_inline struct flow_event tcpw_now(struct tcpw *t)
{
	return (struct flow_event){
		.rtt_us = t->backlog.rtt_us,
		.delay_us = tcpw_delay_us(t),
	};
}

static __always_inline void tcpw_event(struct sock *sk, struct tcpw *t,
				       u32 type, u32 a, u32 b)
{
	struct flow_event e = tcpw_now(t);

	e.type = type;
	e.a = a;
	e.b = b;
	flow_event(sk, &e);
}

/* --- measure ----------------------------------------------------------- */

/* In a small window, once per pair: a delay that stands still is not a queue. */
static __noinline int tcpw_notice_flat(struct sock *sk)
{
	u32 enough = param_rebase_pairs(), rise_us;
	struct backlog_params p;
	struct tcpw *t = tcpw_of(sk);
	u32 rtt_us = t->backlog.rtt_us, delay_us = tcpw_delay_us(t);

	tcpw_params(&p);
	t->flat = flat_count(t->flat, rtt_us, t->flat_us, delay_us,
			     backlog_full(&t->backlog, delay_us, &p));
	if (!t->flat)
		t->flat_us = rtt_us;
	if (!enough || t->flat < enough)
		return 0;
	t->flat = 0;
	rise_us = backlog_rebase(&t->backlog, rtt_us);
	if (rise_us)
		tcpw_event(sk, t, CCBPF_EVENT_REBASE, rise_us, rtt_us);
	return 0;
}

/* Take this ACK's RTT; true: it counts. Only in state Open: elsewhere the ACK may
 * be for an older segment. */
static __always_inline bool tcpw_measure(struct sock *sk, struct tcpw *t,
					 u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	bool alone = acked <= 1 && !tp->packets_out;
	struct backlog_params p;

	if (law_unlikely(sock_ca_state(sk) != TCP_CA_Open))
		return false;
	tcpw_params(&p);
	backlog_unmute(&t->backlog, tp->snd_una);
	westwood_ack(&t->westwood, tp->snd_una, tp->snd_nxt, tp->delivered,
		     tp->tcp_mstamp);
	return backlog_sample(&t->backlog, tp->tcp_mstamp, sock_rtt_us(tp),
			      alone, t->window, &p);
}

/* --- decide ------------------------------------------------------------ */

static __always_inline enum tcpw_verdict
tcpw_decide(struct sock *sk, struct tcpw *t, bool counts)
{
	struct backlog_params p;

	if (!t->avoiding)
		return TCPW_GROW;
	if (law_unlikely(sock_ca_state(sk) != TCP_CA_Open)) /* RTT is stale */
		return t->window ? TCPW_HOLD : TCPW_GROW;
	tcpw_params(&p);
	if (!backlog_exceeds(&t->backlog, tcpw_window(tcp_of(sk), t), &p))
		return TCPW_GROW;
	return counts && !t->backlog.muted ? TCPW_REDUCE : TCPW_HOLD;
}

/* --- act --------------------------------------------------------------- */

/* From here on EWR works, and its first cycle begins. */
static __always_inline void tcpw_avoid(struct tcpw *t)
{
	if (t->avoiding)
		return;
	t->avoiding = 1;
	t->backlog.low_us = 0;
	t->backlog.high_us = 0;
}

/* A window below small_window: pairs of packets, one pair per gap. */
static __noinline int tcpw_small_enter(struct sock *sk, u32 window)
{
	struct tcpw *t = tcpw_of(sk);
	bool was_small = t->window;

	t->window = window ?: 1;
	t->paced |= pace_on(sk);
	if (was_small)
		return 0;
	t->flat = 0;
	t->flat_us = 0;
	tcpw_event(sk, t, CCBPF_EVENT_SMALL_ENTER, tcpw_gap_us(tcp_of(sk), t),
		   0);
	return 0;
}

static __noinline int tcpw_small_leave(struct sock *sk, u32 window)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);

	t->window = 0;
	tp->snd_cwnd = window ?: 1;
	tp->snd_cwnd_cnt = 0;
	tcpw_event(sk, t, CCBPF_EVENT_SMALL_LEAVE, window, 0);
	return 0;
}

/* Make this the policy's window. */
static __always_inline void tcpw_set_window(struct sock *sk, struct tcpw *t,
					    u64 window_q8)
{
	u32 window = window_q8 >> BACKLOG_Q8_SHIFT;
	u32 part = window_q8 & (BACKLOG_ONE - 1);
	struct tcp_sock *tp = tcp_of(sk);

	if (window < param_small_window()) {
		tcpw_small_enter(sk, window);
		sock_cut_cwnd(tp, SMALL_PAIR);
		return;
	}
	t->window = 0; /* small_window may have been lowered meanwhile */
	sock_cut_cwnd(tp, window);
	tp->snd_cwnd_cnt = (u64)window * part >> BACKLOG_Q8_SHIFT;
}

/* The virtual queue exceeds its threshold: down to what the path carries (4.2). */
static __noinline int tcpw_reduce(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);
	struct ccbpf_flow *f = flow_of(sk);
	struct backlog_params p;
	u32 queue, threshold;

	tcpw_params(&p);
	queue = backlog_queue(&t->backlog, tcpw_window(tp, t));
	threshold = backlog_threshold(&t->backlog, &p);
	tcpw_set_window(sk, t,
			backlog_pipe(&t->backlog, tcpw_window_q8(tp, t)));
	backlog_reduced(&t->backlog, tp->snd_nxt, &p);
	t->loss_cwnd = 0;
	flow_count(indications);
	if (f)
		f->indications++;
	tcpw_event(sk, t, CCBPF_EVENT_EWR, queue, threshold);
	return 0;
}

static __noinline int tcpw_gentle_left(struct sock *sk)
{
	struct tcpw *t = tcpw_of(sk);
	u32 last_us = gentle_base_us(&t->gentle);

	tcpw_avoid(t);
	gentle_left(tcp_of(sk));
	tcpw_event(sk, t, CCBPF_EVENT_SLOW_START_END, t->backlog.last_us,
		   last_us);
	return 0;
}

/* A pair that found no queue: a packet for each RTT of its gap. */
static __always_inline void tcpw_small_grow(struct sock *sk, struct tcpw *t)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 limit = law_max(param_small_window(), 1);

	t->window = law_min(t->window + small_gap_rtts(t->window, tp->mss_cache,
						       param_small_spread()),
			    limit);
	if (t->window >= limit)
		tcpw_small_leave(sk, t->window);
}

static __always_inline void tcpw_grow(struct sock *sk, struct tcpw *t,
				      u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (!sock_cwnd_limited(tp)) {
		if (gentle_held(tp, &t->gentle, t->avoiding,
				t->backlog.last_us, acked))
			tcpw_gentle_left(sk);
		return;
	}
	if (sock_in_slow_start(tp)) {
		acked = gentle_slow_start(sk, t, t->backlog.last_us,
					  param_gentle_start(),
					  tcpw_gentle_left, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* Small windows once per pair; and after a loss the window may have become small
 * without a reduction of ours. */
static __always_inline void tcpw_keep_small(struct sock *sk, struct tcpw *t)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (t->avoiding && !t->window && !sock_in_slow_start(tp) &&
	    law_unlikely(tp->snd_cwnd < param_small_window()))
		tcpw_small_enter(sk, tp->snd_cwnd);
	if (law_unlikely(t->window))
		small_keep(tp);
	t->paced = pace_keep(sk, t->paced,
			     t->window || backlog_base(&t->backlog) >=
						  param_pace_rtt());
}

static __always_inline void tcpw_act(struct sock *sk, struct tcpw *t,
				     enum tcpw_verdict verdict, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (law_unlikely(t->undone)) { /* see undo_cwnd() */
		t->undone = 0;
		sock_cut_cwnd(tp, tp->snd_cwnd);
	}
	if (law_unlikely(verdict == TCPW_REDUCE))
		tcpw_reduce(sk);
	else if (verdict == TCPW_GROW && !t->window)
		tcpw_grow(sk, t, acked);
	else if (verdict == TCPW_GROW && !tp->packets_out)
		tcpw_small_grow(sk, t);
	if (law_unlikely(t->window) && !tp->packets_out)
		tcpw_notice_flat(sk);
	if (sock_ca_state(sk) == TCP_CA_Open)
		tcpw_keep_small(sk, t);
}

/* --- publish ------------------------------------------------------------ */

static __always_inline enum ccbpf_phase tcpw_phase(struct sock *sk,
						   struct tcpw *t)
{
	if (sock_ca_state(sk) >= TCP_CA_CWR)
		return CCBPF_PHASE_RECOVERY;
	if (t->window)
		return CCBPF_PHASE_SMALL;
	return flow_phase(tcp_of(sk));
}

static __always_inline void tcpw_fill_own(struct tcp_sock *tp, struct tcpw *t,
					  struct ccbpf_flow *f)
{
	struct ccbpf_flow_tcpw *own = &f->tcpw;
	struct backlog *b = &t->backlog;
	struct backlog_params p;
	u32 window = tcpw_window(tp, t);

	tcpw_params(&p);
	f->delay_threshold_us = backlog_limit_us(b, window, &p);
	own->ere_bps =
		(u64)window * tp->mss_cache * 8000000 / law_max(b->rtt_us, 1);
	own->queue_milli = backlog_queue(b, window);
	own->threshold_milli = backlog_threshold(b, &p);
	own->d_min_us = backlog_delay(b, b->least_us);
	own->d_max_us = backlog_delay(b, b->most_us);
	own->d_loss_us = backlog_loss_delay(b, &p);
	own->foreground_permille = b->foreground * 1000u / BACKLOG_ONE;
	own->window = window;
	own->pair_gap_us = t->window ? tcpw_gap_us(tp, t) : 0;
	f->delay_max_us = own->d_max_us;
}

static __noinline int tcpw_fill(struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);
	u32 last_us = t->backlog.last_us;

	if (!f)
		return 0;
	flow_fill(tp, f);
	f->phase = tcpw_phase(sk, t);
	f->delay_source = CCBPF_SIGNAL_RTT;
	f->rtt_us = last_us;
	f->rtt_min_us = backlog_base(&t->backlog);
	f->delay_us = backlog_delay(&t->backlog, last_us);
	f->delay_smoothed_us = tcpw_delay_us(t);
	tcpw_fill_own(tp, t, f);
	return 0;
}

static __always_inline void tcpw_publish(struct sock *sk, struct tcpw *t)
{
	if (law_unlikely(flow_due(tcp_of(sk), &t->published_kius)))
		tcpw_fill(sk);
}

/* --- loss and undo ----------------------------------------------------- */

/* packets: ssthresh after a loss or a mark (4.1) */
static __always_inline u32 tcpw_lost_ssthresh(struct tcp_sock *tp,
					      struct tcpw *t, bool loss)
{
	u64 pipe_q8 = backlog_pipe(&t->backlog,
				   (u64)tp->snd_cwnd << BACKLOG_Q8_SHIFT);
	u32 pipe = (pipe_q8 + BACKLOG_ONE / 2) >> BACKLOG_Q8_SHIFT;
	u32 delivered =
		westwood_delivered(&t->westwood, backlog_base(&t->backlog));

	return westwood_ssthresh(tp->snd_cwnd, pipe, delivered, !t->avoiding,
				 !loss || !t->backlog.rtt_us);
}

SEC("struct_ops")
__u32 BPF_PROG(tcpw_lp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);
	bool loss = sock_lost(tp);
	struct backlog_params p;
	struct flow_event e;
	u32 to;

	if (!t->open)
		return sock_reno_ssthresh(tp);
	tcpw_params(&p);
	to = tcpw_lost_ssthresh(tp, t, loss);
	if (loss)
		backlog_lost(&t->backlog, tp->snd_nxt, &p);
	else
		backlog_mute(&t->backlog, tp->snd_nxt);
	e = tcpw_now(t);
	flow_reduced(sk, &e, loss, to);
	tcpw_avoid(t);
	t->loss_cwnd = tp->snd_cwnd;
	if (t->window)
		t->window = law_max(t->window / 2, 1);
	tcpw_fill(sk);
	flow_repairs(sk, to);
	return to;
}

/* The kernel found a reduction to be needless. What a loss took comes back; an EWR
 * since then (loss_cwnd = 0) stays, and so must ssthresh, which the kernel restores
 * after this call: the next ACK takes it down again. */
SEC("struct_ops")
__u32 BPF_PROG(tcpw_lp_undo_cwnd, struct sock *sk)
{
	struct tcpw *t = tcpw_of(sk);
	u32 now = tcp_of(sk)->snd_cwnd, cwnd = law_max(now, t->loss_cwnd);
	struct flow_event e;

	t->undone = !t->loss_cwnd;
	if (t->window && cwnd >= param_small_window())
		tcpw_small_leave(sk, cwnd);
	e = tcpw_now(t);
	flow_undone(sk, &e, cwnd - now);
	return cwnd ?: 1;
}

/* --- the story ----------------------------------------------------------- */

SEC("struct_ops")
void BPF_PROG(tcpw_lp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcpw *t = tcpw_of(sk);
	bool counts = tcpw_measure(sk, t, acked);
	enum tcpw_verdict verdict = tcpw_decide(sk, t, counts);

	tcpw_act(sk, t, verdict, acked);
	tcpw_publish(sk, t);
}

/* Nothing was in flight and the first packets leave. */
static __always_inline void tcpw_transmit_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);

	if (flow_idle(tp, t->published_kius)) {
		backlog_restart(&t->backlog);
		westwood_restart(&t->westwood, tp->snd_nxt, tp->delivered,
				 tp->tcp_mstamp);
	}
	if (t->window)
		small_depart(sk, tcpw_gap_us(tp, t));
}

COMPAT_TX_START(tcpw_lp, tcpw_transmit_start)

SEC("struct_ops")
void BPF_PROG(tcpw_lp_init, struct sock *sk)
{
	static const char name[CCBPF_NAME_LEN] = "tcpw_lp";
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);

	backlog_init(&t->backlog);
	westwood_restart(&t->westwood, tp->snd_nxt, tp->delivered,
			 tp->tcp_mstamp);
	gentle_open(tp, &t->gentle, param_gentle_start());
	t->window = 0;
	t->loss_cwnd = 0;
	t->flat_us = 0;
	t->published_kius = 0;
	t->avoiding = tp->snd_ssthresh < TCP_INFINITE_SSTHRESH; /* taken over */
	t->paced = 0;
	t->undone = 0;
	t->open = 1;
	t->flat = 0;
	flow_open(sk, name);
	tcpw_event(sk, t, CCBPF_EVENT_OPENED, sock_ecn(tp),
		   sock_timestamps(tp));
}

SEC("struct_ops")
void BPF_PROG(tcpw_lp_release, struct sock *sk)
{
	struct tcpw *t = tcpw_of(sk);
	struct ccbpf_flow *f = flow_of(sk);

	tcpw_event(sk, t, CCBPF_EVENT_CLOSED, f ? f->indications : 0,
		   f ? f->losses : 0);
	if (t->paced)
		pace_off(sk);
	flow_close(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops tcpw_lp = {
	.cong_avoid = (void *)tcpw_lp_cong_avoid,
	.ssthresh = (void *)tcpw_lp_ssthresh,
	.undo_cwnd = (void *)tcpw_lp_undo_cwnd,
	.cwnd_event = (void *)tcpw_lp_cwnd_event,
	.init = (void *)tcpw_lp_init,
	.release = (void *)tcpw_lp_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "tcpw_lp",
};
