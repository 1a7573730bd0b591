// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP-LP: a background flow that yields to rising one-way delay.
 *
 * A. Kuzmanovic, E. Knightly: "TCP-LP: Low-Priority Service via End-Point
 * Congestion Control", IEEE/ACM ToN 2006. Sections and equations are its own.
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
 *	  loss: reno, w = w/2
 *
 * Where and why this is not the paper to the letter:
 *
 *  1. Delay. The paper takes d from timestamps alone. Their tick is 1 ms on most
 *     paths, so the RTT gives the size of the queue and the one-way delay only
 *     takes away what lies in the reverse path (law/delay.h).
 *  2. Clock. The peer's tick is learned where queueing cannot falsify it, and
 *     checked for ever, not once in the first second (VI-A). Until then, and
 *     without timestamps, the RTT's queueing delay is the signal.
 *  3. d_min, d_max age in two halves of 90 s, where the paper resets them every
 *     three minutes (VI-A): a reset never forgets a fresh minimum.
 *  4. Smoothing starts anew with the first packet sent after a reaction. Else
 *     the queue before the reaction, remembered for 8 ACKs, counts as a second
 *     indication and takes the window to 1 without any cross traffic. It begins
 *     with the smallest of four samples, and two make an indication: one late
 *     ACK of a busy host is none.
 *  5. The threshold has a floor (500 us, at most half q_max): on paths without a
 *     queue the noise of hosts is not congestion.
 *  6. A single packet in flight is not smoothed: its ACK may be a delayed one,
 *     40 ms late. And of a pair whose other half a full queue dropped: a half tells
 *     no more than the largest queue that whole ones have shown.
 *  7. Small windows. The paper sends 64-byte segments; a controller cannot, so
 *     it sends full ones as rarely (law/small_window.h).
 *  8. Every early cut lowers ssthresh as well, or the kernel would slow-start
 *     back. Undo returns what a loss took and never an early cut, and the first
 *     slow start once: the second needless loss ends it.
 *  9. The window only grows while it is what limits the flow (RFC 7661's case).
 * 10. A small window whose delay stands still, above the threshold, takes it for a
 *     longer path (law/flat.h), where the paper waits up to three minutes.
 * 11. gentle_start (off): slow start is half as fast, and ends when the delay rises
 *     (after RFC 9406); indications count from there on, not only after the first loss.
 *     And from where the window is no more what limits the flow, and the delay is high:
 *     behind a queue of its own host, or with a receiver's window smaller than the
 *     path's buffer, nothing may ever be lost (law/gentle_start.h).
 * 12. The kernel paces the flow from a base RTT of 2 ms on (kern/pace.bpf.h), where
 *     the paper's leaves with its ACKs: its own bursts are no congestion.
 * 13. Without SACK the kernel keeps no RTT of a packet: then the smoothed one is d.
 */
#include "kern/lp.bpf.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(tcp_lp);
LP_PARAMS_DEFINE();

SEC("struct_ops")
void BPF_PROG(tcp_lp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct lp *lp = lp_of(sk);
	bool indicated = lp_measure(sk, lp, acked);
	enum inference_verdict verdict = lp_decide(sk, lp, indicated);

	lp_act(sk, lp, verdict, acked);
	lp_publish(sk, lp);
}

SEC("struct_ops")
__u32 BPF_PROG(tcp_lp_ssthresh, struct sock *sk)
{
	return lp_loss(sk, lp_of(sk), sock_lost(tcp_of(sk)));
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
