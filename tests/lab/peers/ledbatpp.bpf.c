// SPDX-License-Identifier: GPL-2.0-only
/*
 * LEDBAT++, as a peer of the labs' rows. It is not part of the product.
 *
 * P. Balasubramanian, O. Ertugay, D. Havey, M. Bagnulo: "LEDBAT++: Congestion Control for
 * Background Traffic", draft-irtf-iccrg-ledbat-plus-plus-06, 2026; section numbers are of its
 * section 4. ledbatpp.h has the law and its states.
 *
 *	base	 smallest RTT of each of the last ten minutes, the smallest of these	(4.5)
 *	current	 smallest of the last four RTTs;  q = current - base;  T = 60 ms
 *	gain	 1/F, F = min(16, ceil(2 T / base))					(4.2)
 *	start	 from 2 packets, w += acked / F; left for good when q > 3/4 T	(4.1)
 *	avoid	 per RTT: q <= T: w += 1/F						(4.3)
 *		          q >  T: w += max(1/F - w (q/T - 1), -w/2), at least 2 packets
 *	slowdown 2 RTT after the end of slow start: ssthresh = w, w = 2 for 2 RTT, then slow start
 *		 to ssthresh, whatever the delay. From its begin to there it has taken d; the next
 *		 one begins 9 d later							(4.4)
 *	loss	 w = w/2
 *
 * Apple's variant, registered as ledbatpp_apple, is the sender of xnu-11417.101.15
 * (bsd/netinet/tcp_ledbat.c, tcp_sysctls.c, tcp_input.c; its text names draft 01):
 *
 *	T = 40 ms (net.inet.tcp.bg_target_qdelay)
 *	avoid	 per RTT: q <= T: w += 1        q > T: w -= min(q/T - 1, 1/2) w
 *	slowdown a decrease puts the next one off to 30 s later. The slow start after it ends also
 *		 when q > T; if it ended below ssthresh the next one is 18 d later
 *	timeout	 all begins anew with the first slow start, up to half of the window
 *
 * Deviations, of both:
 *
 *  1. Rounds are counted by packets: one is over when a window of them was acknowledged.
 *  2. xnu has RTTs in ms and base delays by route, shared by connections. Here: us, and of the
 *     connection. A minute begins with its first sample: an idle time forgets nothing.
 *  3. The window grows only where it limits the flow (RFC 7661), in packets. Recovery, undo,
 *     idle times and timeouts are Linux's. Nothing is paced, as the draft says nothing of it.
 *  4. The draft does not say what a loss does in a slowdown. The packet was sent before it, so
 *     the ssthresh to return to is halved.
 */
#include "kern/socket.bpf.h"
#include "tests/lab/peers/ledbatpp.h"

#define US_PER_MS 1000

char _license[] SEC("license") = "GPL";

_Static_assert(sizeof(struct ledbatpp) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

static __always_inline u32 ledbatpp_now_ms(struct tcp_sock *tp)
{
	return tp->tcp_mstamp / US_PER_MS;
}

/* The law works on the kernel's own window and ssthresh, which the kernel changes as well. */
static __always_inline struct ledbatpp *ledbatpp_of(struct sock *sk)
{
	struct ledbatpp *l = ca_of(sk);

	l->window = tcp_of(sk)->snd_cwnd;
	l->ssthresh = tcp_of(sk)->snd_ssthresh;
	return l;
}

static __always_inline void ledbatpp_store(struct tcp_sock *tp, const struct ledbatpp *l)
{
	tp->snd_cwnd = l->window ?: 1;
	tp->snd_ssthresh = l->ssthresh;
}

static __always_inline void ledbatpp_open(struct sock *sk, bool apple)
{
	struct tcp_sock *tp = tcp_of(sk);

	ledbatpp_begin(ca_of(sk), apple, ledbatpp_now_ms(tp));
	if (tp->data_segs_out < LEDBATPP_LEAST && tp->snd_cwnd > LEDBATPP_LEAST)
		tp->snd_cwnd = LEDBATPP_LEAST;
}

SEC("struct_ops")
void BPF_PROG(ledbatpp_init, struct sock *sk)
{
	ledbatpp_open(sk, false);
}

SEC("struct_ops")
void BPF_PROG(ledbatpp_apple_init, struct sock *sk)
{
	ledbatpp_open(sk, true);
}

SEC("struct_ops")
void BPF_PROG(ledbatpp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct ledbatpp *l = ledbatpp_of(sk);
	u32 now_ms = ledbatpp_now_ms(tp), rtt_us = sock_rtt_us(tp);

	if (sock_ca_state(sk) <= TCP_CA_Disorder && rtt_us)
		ledbatpp_sample(l, rtt_us, now_ms);
	ledbatpp_ack(l, acked, sock_cwnd_limited(tp), sock_srtt_us(tp), now_ms);
	ledbatpp_store(tp, l);
}

SEC("struct_ops")
__u32 BPF_PROG(ledbatpp_ssthresh, struct sock *sk)
{
	return ledbatpp_loss(ledbatpp_of(sk));
}

SEC("struct_ops")
void BPF_PROG(ledbatpp_set_state, struct sock *sk, __u8 state)
{
	if (state == TCP_CA_Loss)
		ledbatpp_timeout(ledbatpp_of(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(ledbatpp_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	return law_max(tp->snd_cwnd, tp->prior_cwnd);
}

SEC(".struct_ops")
struct tcp_congestion_ops ledbatpp = {
	.init = (void *)ledbatpp_init,
	.cong_avoid = (void *)ledbatpp_cong_avoid,
	.ssthresh = (void *)ledbatpp_ssthresh,
	.set_state = (void *)ledbatpp_set_state,
	.undo_cwnd = (void *)ledbatpp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "ledbatpp",
};

SEC(".struct_ops")
struct tcp_congestion_ops ledbatpp_apple = {
	.init = (void *)ledbatpp_apple_init,
	.cong_avoid = (void *)ledbatpp_cong_avoid,
	.ssthresh = (void *)ledbatpp_ssthresh,
	.set_state = (void *)ledbatpp_set_state,
	.undo_cwnd = (void *)ledbatpp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "ledbatpp_apple",
};
