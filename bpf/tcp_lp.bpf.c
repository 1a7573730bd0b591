// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP-LP: a background flow that yields to rising one-way delay.
 *
 * A. Kuzmanovic, E. Knightly: "TCP-LP: Low-Priority Service via End-Point Congestion
 * Control", IEEE/ACM ToN 2006. Section, equation and figure numbers are those of the
 * paper.
 *
 *	measure	 q   queueing delay of this ACK, from timestamps and RTT
 *		 sq  = (1 - 1/8) sq + q/8                               (eq. 1)
 *	decide	 indication: sq > 0.15 q_max                            (eq. 2)
 *		 at most one reaction per RTT, to indications or losses
 *	act	                                                    (figure 3)
 *
 *	                    first loss
 *	  SLOW START ----------------------> AVOIDANCE: w += 1 per RTT
 *	  (the kernel's)                      |          ^
 *	                       indication:    |          | 3 RTT without
 *	                       w = w/2        v          | another one
 *	                                     INFERENCE: w stands still
 *	                       another one:   |   ^
 *	                       w = 1          +---+  (timer restarts)
 *
 *	  w < 5: SMALL, a pair of packets per 2 min(MSS/64, 8) / w RTT (III-B.4)
 *	  loss or mark: reno, w = w/2
 *
 * Deviations from the paper:
 *
 *  1. Delay. The paper takes d from timestamps alone. Their tick is 1 ms on most paths, so
 *     the RTT gives the size of the queue, and the one-way delay only removes what lies in
 *     the reverse path (law/delay.h).
 *  2. Clock. The peer's tick is learned where queueing cannot falsify it, and checked for
 *     the connection's lifetime, not once in the first second (VI-A; law/delay_clock.h).
 *     Until it is known, and without timestamps, the RTT's queueing delay is the signal.
 *  3. d_min ages in two halves of 90 s, where the paper resets it every three minutes
 *     (VI-A): so a fresh minimum is never forgotten. d_max never ages: a flow that is alone
 *     would learn it anew from its own cuts, smaller each time. It is forgotten on a new
 *     path (law/delay_buffer.h).
 *  4. Smoothing starts anew with the first packet that is sent after a reaction. Otherwise
 *     the queue before the reaction, remembered for 8 ACKs, counts as a second indication
 *     and takes the window to 1 without any cross traffic. The average begins with the
 *     smallest of four samples, and an indication needs two (of pairs one): one late ACK of a
 *     busy host is no indication.
 *  5. The following is no congestion: a queue within the noise of the path (law/noise.h),
 *     or below a floor (500 us, at most half of q_max); and a time for which the path stood
 *     still (law/silence.h), which says nothing of the buffer. Until losses have shown how
 *     large the buffer is, or a delay passes that is half as large again, the threshold is a
 *     quarter of the base RTT, 4 to 20 ms (law/delay_buffer.h).
 *  6. The ACK of a packet that was alone may be a delayed one, 40 ms late: after a silence
 *     it only counts where it is below the average. The second packet of a pair waits for
 *     the first: that is no queue of other flows (law/spacing.h).
 *  7. Small windows. The paper sends 64-byte packets; a controller cannot do that, so it
 *     sends full ones rarely, at up to 2.8 times that byte rate by default
 *     (law/small_window.h). Its gap may outlast the inference phase: then the next pair halves
 *     the window again, in place of taking it to 1.
 *  8. Every early cut lowers ssthresh as well, or the kernel would slow-start back. Undo
 *     returns what a loss took, never an early cut, and the first slow start only once: the
 *     second needless loss ends it.
 *  9. The window only grows while it is what limits the flow (the case of RFC 7661).
 * 10. A delay that stands still above the threshold, sample after sample of a small window
 *     or round after round of a larger one, is a longer path (law/flat.h), where the paper
 *     waits up to three minutes.
 * 11. gentle_start (off): slow start is half as fast, and ends when the delay rises (after
 *     RFC 9406); indications count from there on, not only after the first loss. With or
 *     without it slow start ends where the window no longer limits the flow while the delay
 *     is high: behind a queue of its own host, or with a receiver's window smaller than the
 *     path's buffer, there may never be a loss (law/gentle_start.h).
 * 12. The kernel paces the flow from a base RTT of 2 ms on (kern/pace.bpf.h), where the
 *     paper's flow sends with its ACKs: so its own bursts are no congestion.
 * 13. After two losses without an indication between them w += 1/2 per RTT: the queue that
 *     lost the packets cannot be seen, and a flow that is paced gets more than its share
 *     there.
 * 14. Without SACK the kernel keeps no RTT of a packet: then the smoothed RTT is d.
 */
#include "kern/lp.bpf.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(tcp_lp);
LP_PARAMS_DEFINE();

SEC("struct_ops")
void BPF_PROG(tcp_lp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct lp *lp = lp_of(sk);
	bool indicated = law_forget(lp_measure(sk, lp, acked));
	enum inference_verdict verdict = law_forget(lp_decide(sk, lp, indicated));

	lp_act(sk, lp, verdict, acked, &tcp_lp_policy);
	lp_publish(sk, lp, &tcp_lp_policy);
}

SEC("struct_ops")
__u32 BPF_PROG(tcp_lp_ssthresh, struct sock *sk)
{
	return lp_loss(sk, lp_of(sk), sock_lost(tcp_of(sk)), &tcp_lp_policy);
}

SEC("struct_ops")
void BPF_PROG(tcp_lp_init, struct sock *sk)
{
	static const char name[CCBPF_NAME_LEN] = "tcp_lp";

	lp_open(sk, name);
}

LP_PROGRAMS(tcp_lp)

SEC(".struct_ops")
struct tcp_congestion_ops tcp_lp = {
	.cong_avoid = (void *)tcp_lp_cong_avoid,
	.ssthresh = (void *)tcp_lp_ssthresh,
	.undo_cwnd = (void *)tcp_lp_undo_cwnd,
	.cwnd_event = (void *)tcp_lp_cwnd_event,
	.init = (void *)tcp_lp_init,
	.release = (void *)tcp_lp_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "tcp_lp",
};
