// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCPW-LP: a background flow that counts its packets in the queue, and estimates whether
 * the queue is its own or that of other flows.
 *
 * H. Shimonishi, T. Hama, M. Sanadidi, M. Gerla, T. Murase: "TCP-Westwood Low-Priority
 * for Overlay QoS Mechanism", IEICE Trans. Commun. 2006. Section numbers are those of the
 * paper.
 *
 *	measure	 D     = RTT - RTT_min
 *		 queue = w - ERE RTT_min = w D / RTT, ERE = w / RTT       (4.2)
 *		 Q_th  = M (1 - D / D_loss) (1 - D_min / D_max), M = 3    (4.3)
 *	decide	 queue > Q_th: early window reduction (EWR), once per RTT
 *	act	 EWR:  w = ERE RTT_min, D_min and D_max learn
 *		 loss: ssthresh = ERE RTT_min, w = min(w, ssthresh)       (4.1)
 *		       if it was chance, else w/2 at the most
 *		 else: w += 1 per RTT; 1/4 where a queue is seen, or losses without one
 *
 *	                    first loss                queue > Q_th: w = ERE RTT_min
 *	  SLOW START ----------------------> AVOIDANCE ---+
 *	  (the kernel's)                     ^  |  ^      |
 *	                                     |  |  +------+
 *	                     queue <= Q_th   |  v  w < 2
 *	                                    SMALL: a pair of packets per 2 * 4 / w RTT
 *
 * The window always grows additively or is reduced, it is never held for longer than the RTT
 * of a reduction: so RTT_min is seen again (4.2). kern/tcpw.bpf.h lists the rooms.
 *
 * Deviations from the paper:
 *
 *  1. The RTT that counts is the smallest one of the last quarter to half of a window (in
 *     ACKs of two packets, at most 63 of them), in states Open and Disorder. The RTT of a
 *     packet that was alone counts only if it is smaller still. So the flow's own bursts,
 *     late ACKs and delayed ACKs are no queue (law/backlog_delay.h). Two more delays are no
 *     queue: a D up to 500 us or up to that of a pair's second packet (at most half of
 *     D_loss), and three quarters of the path's noise (at most an eighth of D_loss;
 *     law/noise.h). The noise is subtracted from D, D_min and D_max, and from what an EWR
 *     takes.
 *  2. Q_th is at least 0.3 packets, which is what the paper shows beside Reno. Where
 *     D_min = D_max, which is all that a flow of a packet or two sees between two
 *     reductions, Q_th would be 0 for ever. D_loss falls four times slower than it rises,
 *     never by a loss that was forgiven, and does not learn from a loss at a D below D_max:
 *     random loss would make it the D of an almost empty queue, and Q_th 0.
 *  3. RTT_min is forgotten after 90 to 180 s, as a path may become longer; a delay that
 *     stands still is taken for a longer path sooner (law/flat.h). The window then
 *     slow-starts to half of what it was before the last loss, because the EWRs since
 *     then were needless.
 *  4. EWR begins after the first loss: slow start is the kernel's, and its bursts are a
 *     queue of the flow's own. RTT_min is learned from the first ACK on, D_min and D_max
 *     from the end of slow start on, when the first cycle begins. With gentle_start (off)
 *     slow start is slower and ends when the delay rises (RFC 9406). Where the window is
 *     not what limits the flow there may never be a loss: there slow start ends after a
 *     window of packets with a high delay (law/gentle_start.h).
 *  5. Fractions of the window after an EWR count: they are kept in the kernel's counter
 *     of additive increase.
 *  6. Windows "almost 0" (5.2.1): below 2 packets, pairs of packets are sent with a gap
 *     between them (law/small_window.h). A window of 1 per RTT is 1 to 3 % of the paper's
 *     link for each flow, and each such packet would meet a delayed ACK.
 *  7. A loss is forgiven as in 4.1 only while that is right (law/chance.h): a policer and
 *     a buffer of a few packets lose packets without a queue too. Otherwise, and where
 *     there was a queue, a loss takes at least half of the window, as a mark (ECN) always
 *     does. The first loss leaves what was delivered in a round (law/westwood.h).
 *  8. Every EWR lowers ssthresh as well, or the kernel would slow-start back. Undo
 *     returns what a loss took and never what an EWR took.
 *  9. The window only grows while it is what limits the flow (the case of RFC 7661). It
 *     grows by a quarter packet per RTT while the RTT that counts is above RTT_min by
 *     more than noise: beside other flows each packet of growth is taken from them. When
 *     the path is empty again, the window grows at the full rate.
 * 10. The kernel paces the flow from a base RTT of 2 ms on (kern/pace.bpf.h).
 */
#include "kern/tcpw_measure.bpf.h"
#include "kern/tcpw_record.bpf.h"
#include "kern/tcpw_window.bpf.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(tcpw_lp);

struct tcpw_lp_params params SEC(".data.params") = { TCPW_LP_PARAMS(PARAM_DEFAULT) };

enum tcpw_verdict {
	TCPW_GROW,
	TCPW_HOLD,
	TCPW_REDUCE,
};

/* --- decide ------------------------------------------------------------ */

static __always_inline enum tcpw_verdict tcpw_decide(struct sock *sk, struct tcpw *t, bool counts)
{
	struct backlog_params p;

	if (!t->avoiding)
		return TCPW_GROW;
	if (law_unlikely(sock_ca_state(sk) > TCP_CA_Disorder)) /* RTT is stale */
		return t->window ? TCPW_HOLD : TCPW_GROW;
	tcpw_params(t, &p);
	if (!backlog_exceeds(&t->backlog, tcpw_window(tcp_of(sk), t), &p))
		return TCPW_GROW;
	return counts && !t->backlog.muted ? TCPW_REDUCE : TCPW_HOLD;
}

/* --- act --------------------------------------------------------------- */

static __always_inline void tcpw_act(struct sock *sk, struct tcpw *t, enum tcpw_verdict verdict,
				     u32 acked)
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
	if (law_unlikely(tcpw_in_pairs(tp, t)) && !tp->packets_out)
		tcpw_notice_flat(sk);
	tcpw_keep_small(sk, t);
}

/* --- loss and undo ----------------------------------------------------- */

/* Is a loss after slow start chance? */
static __always_inline bool tcpw_was_chance(struct tcp_sock *tp, struct tcpw *t,
					    const struct backlog_params *p)
{
	u32 window = tcpw_window(tp, t);
	return chance_lost(&t->chance, tp->delivered, window, param_chance());
}

/* Did a full buffer lose the packet? Not used in slow start, where the delivered packets decide. */
static __always_inline bool tcpw_overflowed(struct tcp_sock *tp, struct tcpw *t,
					    const struct backlog_params *p)
{
	return t->avoiding && backlog_overflows(&t->backlog, t->lost_us, tp->snd_cwnd, p);
}

/* packets: ssthresh after a loss or mark. The one that ends slow start leaves what the last
 * round has delivered. */
static __always_inline u32 tcpw_lost_ssthresh(struct tcp_sock *tp, struct tcpw *t, bool chance,
					      const struct backlog_params *p)
{
	u64 pipe_q8 = backlog_pipe(&t->backlog, (u64)tp->snd_cwnd << BACKLOG_Q8_SHIFT, p);
	u32 pipe = (pipe_q8 + BACKLOG_ONE / 2) >> BACKLOG_Q8_SHIFT;
	u32 delivered = ~0u;

	if (!t->avoiding)
		delivered = westwood_delivered(&t->westwood, backlog_base(&t->backlog));
	return westwood_ssthresh(tp->snd_cwnd, pipe, delivered, chance);
}

/* A mark that leaves a small window makes it small at once (SMALL_MARKED). */
SEC("struct_ops")
__u32 BPF_PROG(tcpw_lp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct tcpw *t = tcpw_of(sk);
	bool loss = sock_lost(tp);
	struct backlog_params p;
	struct flow_event e;
	u32 to;
	bool chance = loss && t->backlog.rtt_us, small;

	if (!t->open)
		return sock_reno_ssthresh(tp);
	tcpw_params(t, &p);
	if (chance && t->avoiding)
		chance = tcpw_was_chance(tp, t, &p);
	t->telling = loss;
	t->forgiven = chance && t->avoiding;
	t->lost_us = sock_rtt_us(tp);
	t->noise.flat = 0;
	chance = chance && !tcpw_overflowed(tp, t, &p);
	small = t->window || (!loss && tp->snd_cwnd / 2 < param_small_window());
	to = small ? (loss ? SMALL_PAIR : SMALL_MARKED) : tcpw_lost_ssthresh(tp, t, chance, &p);
	backlog_mute(&t->backlog, tp->snd_nxt);
	e = tcpw_now(t);
	flow_reduced(sk, &e, loss, to);
	tcpw_avoid(tp, t);
	t->lost = !t->window; /* an undo brings no old window back */
	if (small)
		tcpw_small_enter(sk, tcpw_window(tp, t) / 2);
	tcpw_fill(sk);
	flow_repairs(sk, to);
	return to;
}

/* The kernel found a reduction to be needless. What a loss took comes back; an EWR
 * since then (lost = 0) stays, and so must ssthresh, which the kernel restores
 * after this call: the next ACK lowers it again. */
SEC("struct_ops")
__u32 BPF_PROG(tcpw_lp_undo_cwnd, struct sock *sk)
{
	struct tcpw *t = tcpw_of(sk);
	u32 now = tcp_of(sk)->snd_cwnd;
	u32 cwnd = t->lost ? law_max(now, tcp_of(sk)->prior_cwnd) : now;
	struct flow_event e;

	t->undone = !t->lost;
	t->telling = 0;
	if (t->avoiding)
		chance_undone(&t->chance);
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
		if (!t->avoiding)
			westwood_restart(&t->westwood, tp->delivered, tp->tcp_mstamp);
		t->noise.end = tp->snd_nxt;
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
	noise_init(&t->noise, tp->snd_nxt);
	t->window = 0;
	t->lost = 0;
	t->telling = 0;
	t->forgiven = 0;
	t->flat_us = 0;
	t->published_kius = 0;
	t->avoiding = tp->snd_ssthresh < TCP_INFINITE_SSTHRESH; /* taken over */
	westwood_restart(&t->westwood, tp->delivered, tp->tcp_mstamp);
	gentle_open(tp, &t->gentle, param_gentle_start());
	if (t->avoiding)
		chance_init(&t->chance, tp->delivered);
	t->paced = 0;
	t->undone = 0;
	t->strayed = 0;
	t->open = 1;
	spacing_init(&t->spacing, tp->tcp_mstamp);
	flow_open(sk, name);
	tcpw_event(sk, t, CCBPF_EVENT_OPENED, sock_ecn(tp), sock_timestamps(tp));
}

SEC("struct_ops")
void BPF_PROG(tcpw_lp_release, struct sock *sk)
{
	struct tcpw *t = tcpw_of(sk);
	struct ccbpf_flow *f = flow_of(sk);

	if (!t->open)
		return; /* before Linux 6.14 also without init() */
	t->open = 0;
	tcpw_event(sk, t, CCBPF_EVENT_CLOSED, f ? f->indications : 0, f ? f->losses : 0);
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
