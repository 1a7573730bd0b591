// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP-LP/ECN: TCP-LP's policy with the router's marks as its signal.
 *
 * A. Kuzmanovic, E. Knightly: "TCP-LP: Low-Priority Service via End-Point Congestion
 * Control", IEEE/ACM ToN 2006, section IV-A: the router marks packets of this class when
 * its queue exceeds delta Q, and does not mark others; the mark comes back as ECE and is
 * the early congestion indication of figure 3.
 *
 *	ECE on an ACK	 the kernel enters CWR, calls ssthresh(), and brings the
 *			 window there within one RTT (PRR): at most one reaction
 *			 per RTT, as in figure 3
 *	ssthresh()	 AVOIDANCE: w/2, and INFERENCE begins
 *			 INFERENCE: 1, and its timer restarts
 *	loss		 reno
 *
 * Growth, small windows, undo: as tcp_lp, see there. Marks count from the first one on, in
 * slow start too: a router's mark needs no learning.
 *
 * Deviations from the paper:
 *
 *  1. The paper's router marks. Most of today's routers do not, and that two hosts have agreed
 *     on ECN does not say whether a router does. So until this connection has seen a mark, and
 *     again when none has come for delay_memory, the flow is tcp_lp in all respects: it yields
 *     to delay. It does the same where ECN was refused. `flows` shows the signal: delay_source.
 *  2. While marks come, delays are still measured and shown, but decide nothing.
 *  3. The router knows the class by its DSCP, LE (RFC 8622); the paper does not say how. An
 *     application that has set a DSCP keeps it.
 *  4. An ACK that reports a loss and a mark is answered as a loss.
 *  5. The first echo in the RTT after that of a cut leaves the window as it is, and does not
 *     count. The kernel spreads its cut over an RTT (PRR), and the packets that leave at
 *     its beginning still meet the queue that was reported. The inference phase is longer by
 *     this RTT: the next echo counts, also if the queue has grown.
 *  6. If packets are lost before a mark's reduction is over, the kernel asks for no second one
 *     (tcp_enter_recovery(), tcp_enter_loss() of net/ipv4/tcp_input.c). After an echo that does not
 *     count (5.) the loss would take nothing. So half of the window before the mark is left then.
 */
#define LP_PARAMS TCP_LP_ECN_PARAMS
#define LP_PARAMS_STRUCT struct tcp_lp_ecn_params
#include "kern/lp.bpf.h"

#include "kern/dscp.bpf.h"

#define LP_ECN_HALVES 2 /* halves of delay_memory for which a mark is remembered */
#define LP_ECN_LATE 2 /* RTTs from a cut until which an echo may be of the queue that was cut */

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(tcp_lp_ecn);
LP_PARAMS_DEFINE();

/* 1. Another signal decides from now on. */
static __noinline int lp_ecn_signal(struct sock *sk, u32 signal)
{
	struct lp *lp = lp_of(sk);
	u32 was = lp->signal;

	lp->signal = signal;
	flow_count(fallbacks);
	lp_event(sk, lp, CCBPF_EVENT_FALLBACK, was, signal);
	return 0;
}

/* A half of delay_memory is over. */
static __noinline int lp_ecn_forget(struct sock *sk)
{
	struct lp *lp = lp_of(sk);

	if (lp->marked)
		lp->marked--;
	if (lp->signal == CCBPF_SIGNAL_ECN && !lp->marked)
		lp_ecn_signal(sk, lp_delay_signal(lp));
	return 0;
}

/* 5. The kernel's CWR clears that echo; only a later echo counts. */
static __always_inline bool lp_ecn_of_the_cut(struct tcp_sock *tp, struct lp *lp)
{
	u32 rtts = param_inference_rtts();
	u64 late_us = (u64)sock_rtt_us(tp) * (rtts > LP_ECN_LATE ? rtts - LP_ECN_LATE : 0);

	inference_unmute(&lp->inference, tp->snd_una);
	if (lp->answered || inference_left_us(&lp->inference, tp->tcp_mstamp) <= late_us)
		return false;
	lp->answered = 1;
	inference_forgive(&lp->inference, tp->snd_nxt, sock_rtt_us(tp));
	return true;
}

/* figure 3 at a mark, between two ACKs' worth of cong_avoid() */
static __always_inline u32 lp_ecn_mark(struct sock *sk, struct lp *lp)
{
	struct tcp_sock *tp = tcp_of(sk);
	enum inference_verdict verdict;
	u32 to = tp->snd_cwnd;

	lp->marked = LP_ECN_HALVES;
	if (lp->signal != CCBPF_SIGNAL_ECN)
		lp_ecn_signal(sk, CCBPF_SIGNAL_ECN);
	lp_avoid(lp);
	if (lp_ecn_of_the_cut(tp, lp))
		return to ?: 1;
	verdict = lp_decide(sk, lp, true);
	if (verdict == INFERENCE_HALVE || verdict == INFERENCE_TO_ONE) {
		lp->answered = 0;
		lp->bare = 0;
		to = lp_set_window(sk, lp, lp_reduced(tp, lp, verdict, &tcp_lp_policy));
		lp_tell_indication(sk, lp, verdict);
	}
	if (lp->window)
		to = SMALL_MARKED; /* the next pair leaves with nothing in flight: paced */
	lp_tell_reduction(sk, lp, false, to);
	lp->lost = 0;
	return to ?: 1;
}

SEC("struct_ops")
void BPF_PROG(tcp_lp_ecn_in_ack_event, struct sock *sk, __u32 flags)
{
	struct lp *lp = lp_of(sk);

	lp->echoed = !!(flags & CA_ACK_ECE);
	if (sock_ca_state(sk) == TCP_CA_CWR) /* cong_avoid() is not called */
		lp_publish(sk, lp, &tcp_lp_policy);
}

SEC("struct_ops")
void BPF_PROG(tcp_lp_ecn_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct lp *lp = lp_of(sk);
	u16 half = lp->delay.half;
	bool delayed = law_forget(lp_measure(sk, lp, acked));
	enum inference_verdict verdict;

	if (law_unlikely(lp->delay.half != half))
		lp_ecn_forget(sk);
	verdict = lp_decide(sk, lp, delayed && lp->signal != CCBPF_SIGNAL_ECN);
	lp_act(sk, lp, verdict, acked, &tcp_lp_policy);
	lp_publish(sk, lp, &tcp_lp_policy);
}

SEC("struct_ops")
__u32 BPF_PROG(tcp_lp_ecn_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);

	if (sock_ecn(tp) && lp->echoed && !tp->lost_out)
		return lp_ecn_mark(sk, lp);
	return lp_loss(sk, lp, true, &tcp_lp_policy);
}

/* 6. */
SEC("struct_ops")
void BPF_PROG(tcp_lp_ecn_set_state, struct sock *sk, __u8 state)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct lp *lp = lp_of(sk);
	u32 to = lp->window ? SMALL_PAIR : law_max(tp->prior_cwnd / 2, SMALL_PAIR);

	if (lp->open && sock_ca_state(sk) == TCP_CA_CWR && state >= TCP_CA_Recovery &&
	    tp->snd_ssthresh > to)
		tp->snd_ssthresh = lp_reduce(sk, lp, true, to, &tcp_lp_policy);
}

SEC("struct_ops")
void BPF_PROG(tcp_lp_ecn_init, struct sock *sk)
{
	static const char name[CCBPF_NAME_LEN] = "tcp_lp_ecn";

	lp_open(sk, name);
	dscp_begin(sk, param_dscp());
}

LP_PROGRAMS(tcp_lp_ecn)

SEC(".struct_ops")
struct tcp_congestion_ops tcp_lp_ecn = {
	.in_ack_event = (void *)tcp_lp_ecn_in_ack_event,
	.cong_avoid = (void *)tcp_lp_ecn_cong_avoid,
	.ssthresh = (void *)tcp_lp_ecn_ssthresh,
	.set_state = (void *)tcp_lp_ecn_set_state,
	.undo_cwnd = (void *)tcp_lp_ecn_undo_cwnd,
	.cwnd_event = (void *)tcp_lp_ecn_cwnd_event,
	.init = (void *)tcp_lp_ecn_init,
	.release = (void *)tcp_lp_ecn_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "tcp_lp_ecn",
};
