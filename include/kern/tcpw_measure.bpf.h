/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TCPW-LP's measurement: the RTT of an ACK, the noise of the path, what a loss says of the
 * buffer, and whether a constant delay is a longer path (law/flat.h) or a queue.
 */
#ifndef CCBPF_KERN_TCPW_MEASURE_BPF_H
#define CCBPF_KERN_TCPW_MEASURE_BPF_H

#include "kern/tcpw.bpf.h"
#include "law/flat.h"

/* A delay that was taken for a queue is that of a longer path: RTT_min rises, and the window
 * slow-starts to where a loss would have left it (half of what it was before the last one),
 * because the EWRs since then were needless. EWR works in slow start as well. */
static __always_inline void tcpw_rebase(struct sock *sk, struct tcpw *t,
					const struct backlog_params *p)
{
	u32 rtt_us = t->backlog.rtt_us;
	u32 rise_us = backlog_rebase(&t->backlog, rtt_us, p);
	struct tcp_sock *tp = tcp_of(sk);

	t->noise.flat = 0;
	t->flat_us = 0;
	if (!rise_us)
		return;
	tp->snd_ssthresh = law_max(tp->snd_ssthresh, tp->prior_cwnd / 2);
	tcpw_event(sk, t, CCBPF_EVENT_REBASE, rise_us, rtt_us);
}

/* A pair for each round trip, or fewer */
static __always_inline bool tcpw_in_pairs(struct tcp_sock *tp, struct tcpw *t)
{
	return t->window || (t->avoiding && tp->snd_cwnd <= SMALL_PAIR);
}

/* In pairs, once for each pair: a constant delay is not a queue. A single larger
 * one, of a delayed ACK, is ignored. */
static __noinline int tcpw_notice_flat(struct sock *sk)
{
	u32 enough = param_rebase_pairs(), full_us, count;
	struct backlog_params p;
	struct tcpw *t = tcpw_of(sk);
	u32 rtt_us = t->backlog.rtt_us, delay_us = tcpw_delay_us(t);

	tcpw_params(t, &p);
	count = flat_pairs(t->noise.flat, rtt_us, t->flat_us, p.noise_us, t->spacing.packet_us);
	if (!count && rtt_us > t->flat_us && t->noise.flat && !t->strayed) {
		t->strayed = 1;
		return 0;
	}
	t->strayed = 0;
	t->noise.flat = count;
	full_us = backlog_loss_delay(&t->backlog, &p);
	if (!t->noise.flat)
		t->flat_us = rtt_us;
	if (!enough || t->noise.flat < flat_enough(enough, delay_us, full_us))
		return 0;
	tcpw_rebase(sk, t, &p);
	return 0;
}

/* A round has ended. With a large window its smallest delay may show that the path became
 * longer. */
static __noinline int tcpw_round_ended(struct sock *sk)
{
	struct tcpw *t = tcpw_of(sk);
	u32 low_us = t->window ? NOISE_UNKNOWN : noise_learn(&t->noise);
	struct backlog_params p;
	struct tcp_sock *tp = tcp_of(sk);

	if (!t->avoiding)
		westwood_turn(&t->westwood, tp->delivered, tp->tcp_mstamp);
	if (low_us == NOISE_UNKNOWN)
		return 0;
	t->noise.flat = flat_rounds(t->noise.flat, low_us, t->flat_us, noise_us(&t->noise),
				    t->spacing.packet_us);
	if (!t->noise.flat)
		t->flat_us = low_us;
	if (!param_rebase_pairs() || t->noise.flat < FLAT_ROUNDS)
		return 0;
	tcpw_params(t, &p);
	tcpw_rebase(sk, t, &p);
	return 0;
}

/* A loss is repaired, and the kernel did not find it to be a mistake. */
static __always_inline void tcpw_learn_loss(struct tcpw *t, const struct backlog_params *p)
{
	t->telling = 0;
	backlog_lost(&t->backlog, t->lost_us, t->forgiven, p);
	t->flat_us = 0;
}

/* Take this ACK's RTT; true: it counts. Only in states Open and Disorder: in other states
 * the newest packet that arrived may be a retransmission. */
static __always_inline bool tcpw_measure(struct sock *sk, struct tcpw *t, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	bool alone = acked <= 1 && !tp->packets_out, counts;
	struct backlog_params p;

	if (law_unlikely(sock_ca_state(sk) > TCP_CA_Disorder))
		return false;
	tcpw_params(t, &p);
	if (law_unlikely(t->telling))
		tcpw_learn_loss(t, &p);
	backlog_unmute(&t->backlog, tp->snd_una);
	spacing_heard(&t->spacing, tp->tcp_mstamp, t->window ? 0 : acked);
	if (law_unlikely(noise_turn(&t->noise, tp->snd_una, tp->snd_nxt)))
		tcpw_round_ended(sk);
	counts = backlog_sample(&t->backlog, tp->tcp_mstamp, sock_rtt_us(tp), tp->snd_cwnd, alone,
				t->window, &p);
	if (law_likely(counts && !t->window))
		noise_put(&t->noise, backlog_delay(&t->backlog, sock_rtt_us(tp)));
	return counts;
}

#endif
