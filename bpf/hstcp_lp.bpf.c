// SPDX-License-Identifier: GPL-2.0-only
/*
 * HSTCP-LP: a background flow for fast long paths, TCP-LP with HighSpeed TCP's windows.
 *
 * A. Kuzmanovic, E. Knightly, R. L. Cottrell: "HSTCP-LP: A Protocol for Low-Priority Bulk
 * Data Transfer in High-Speed High-RTT Networks", 2004, an extended abstract without
 * formulas; S. Floyd: "HighSpeed TCP for Large Congestion Windows", RFC 3649. Section
 * numbers are those of the RFC where no other document is named.
 *
 *	measure	 q, sq   as tcp_lp                          (TCP-LP, eq. 1)
 *	decide	 indication: sq > 0.15 q_max                       (eq. 2)
 *		 at most one reaction per RTT, to indications or losses
 *	act	 w <= 38: tcp_lp in all respects. Above it:
 *
 *	                    first loss
 *	  SLOW START ----------------------> AVOIDANCE: w += a(w) per RTT
 *	  (the kernel's)                      |          ^
 *	                       indication:    |          | 3 RTT without
 *	                       w -= b(w) w    v          | another one
 *	                                     INFERENCE: w stands still
 *	                       another one:   |   ^
 *	                       w -= c(w) w    +---+  (timer restarts)
 *
 *	  loss: w -= b(w) w
 *
 *	              w =    38    118    347   1058   5036  19965  83000
 *	  a, packets          1      2      4      8     20     41     70
 *	  b                0.50   0.44   0.38   0.33   0.25   0.17   0.10
 *	  c                0.97   0.84   0.72   0.60   0.42   0.26   0.10
 *
 * The coefficients, and how exact they are: law/highspeed.h. What this shares with TCP-LP,
 * and TCP-LP's own deviations: bpf/tcp_lp.bpf.c, kern/lp.bpf.h.
 *
 * Deviations from the paper:
 *
 *  1. The cuts are ours. The paper only says that TCP-LP's mechanisms act "in low
 *     excess-bitrate ranges", and that its policy then converges to the less responsive one
 *     of HSTCP as the window grows. So a first indication takes what a loss takes in HSTCP,
 *     and persistent congestion takes c(w), which falls with log w from TCP-LP's cut (one
 *     packet is left of 38) to b (at W_high).
 *  2. first_half (off): the first indication takes half of any window, as in TCP-LP;
 *     second_one (off): a second indication leaves one packet of it. Both are there to
 *     compare the policies.
 *  3. a(w) is a whole number of packets per RTT, the RFC's table rounded down; the kernel's
 *     `highspeed` rounds the same table up. So up to 118 packets the window grows as reno's,
 *     where the RFC begins at 38.
 *  4. Slow start is the kernel's, without RFC 3742's limit for large windows.
 */
#include "ccbpf/params.h"

#define LP_PARAMS HSTCP_LP_PARAMS
#define LP_PARAMS_STRUCT struct hstcp_lp_params
#include "kern/lp.bpf.h"
#include "law/highspeed.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(hstcp_lp);
LP_PARAMS_DEFINE();

/* Each packet counts for a(w), so that a window of packets adds a(w). The row of the table
 * is searched only where the window has left the last one. */
static __always_inline u32 hstcp_credit(struct tcp_sock *tp, struct lp *lp, u32 acked)
{
	u32 row = lp->row;

	if (law_unlikely(!highspeed_in_row(row, tp->snd_cwnd))) {
		row = highspeed_row(tp->snd_cwnd);
		lp->row = row;
	}
	return highspeed_credit(acked, row);
}

static __always_inline u32 hstcp_reduced(enum inference_verdict verdict, u32 window)
{
	return highspeed_reduced(verdict, window, param_first_half(), param_second_one());
}

static __always_inline u32 hstcp_loss(struct tcp_sock *tp)
{
	return highspeed_loss(tp->snd_cwnd);
}

static __always_inline u32 permille(u32 q16)
{
	return (q16 * 1000 + HIGHSPEED_HALF_Q16) / HIGHSPEED_Q16;
}

static __always_inline void hstcp_fill(struct tcp_sock *tp, struct lp *lp, struct ccbpf_flow *f)
{
	u32 w = lp_window(tp, lp);

	f->hstcp_lp.highspeed = w > HIGHSPEED_LOW;
	f->hstcp_lp.increase_permille = 1000 * highspeed_increase(highspeed_row(w));
	f->hstcp_lp.decrease_permille = permille(highspeed_decrease(w));
	f->hstcp_lp.second_permille = permille(highspeed_second(w));
}

static const struct lp_policy hstcp_lp_policy = {
	.credit = hstcp_credit,
	.reduced = hstcp_reduced,
	.loss = hstcp_loss,
	.fill = hstcp_fill,
};

SEC("struct_ops")
void BPF_PROG(hstcp_lp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct lp *lp = lp_of(sk);
	bool indicated = law_forget(lp_measure(sk, lp, acked));
	enum inference_verdict verdict = law_forget(lp_decide(sk, lp, indicated));

	lp_act(sk, lp, verdict, acked, &hstcp_lp_policy);
	lp_publish(sk, lp, &hstcp_lp_policy);
}

SEC("struct_ops")
__u32 BPF_PROG(hstcp_lp_ssthresh, struct sock *sk)
{
	return lp_loss(sk, lp_of(sk), sock_lost(tcp_of(sk)), &hstcp_lp_policy);
}

SEC("struct_ops")
void BPF_PROG(hstcp_lp_init, struct sock *sk)
{
	static const char name[CCBPF_NAME_LEN] = "hstcp_lp";

	lp_open(sk, name);
}

LP_PROGRAMS(hstcp_lp)

SEC(".struct_ops")
struct tcp_congestion_ops hstcp_lp = {
	.cong_avoid = (void *)hstcp_lp_cong_avoid,
	.ssthresh = (void *)hstcp_lp_ssthresh,
	.undo_cwnd = (void *)hstcp_lp_undo_cwnd,
	.cwnd_event = (void *)hstcp_lp_cwnd_event,
	.init = (void *)hstcp_lp_init,
	.release = (void *)hstcp_lp_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "hstcp_lp",
};
