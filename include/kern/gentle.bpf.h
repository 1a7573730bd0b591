/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slow start is the kernel's, tcp_slow_start(). With the parameter gentle_start (off by default)
 * it begins with a smaller window, is half as fast, and ends when the delay rises
 * (law/gentle_start.h, after RFC 9406), before there is a loss.
 *
 *	an ACK in slow start, of a flow that is not yet avoiding, with gentle_start:
 *		 an RTT is known, and the delay rises
 *			ssthresh = w, the controller's left(); the whole ACK is left
 *			for what comes after slow start
 *		 else
 *			the kernel's growth, by half of the ACK's packets
 *	any other ACK:
 *			the kernel's growth, up to ssthresh; what it did not use is left
 *	an ACK that finds the window no limit, with or without gentle_start (except ltcp):
 *		 for a window of packets something else was the limit, data waited, and the
 *		 delay was high
 *			ssthresh = w, the controller's left()
 *
 * Only a flow's first slow start is gentle. After a reduction, or when it was taken over from
 * another controller with an ssthresh, a flow is `avoiding`: the next slow start, after a
 * timeout or an idle time, has an ssthresh to end at.
 *
 * A controller's state has the members `gentle` (struct gentle_start) and `avoiding`.
 */
#ifndef CCBPF_KERN_GENTLE_BPF_H
#define CCBPF_KERN_GENTLE_BPF_H

#include "kern/socket.bpf.h"
#include "law/gentle_start.h"

/* A flow begins with a smaller window, unless it has already sent more than that. iperf3 has not,
 * and neither has an application that selects the controller after a greeting. */
static __always_inline void gentle_begin(struct tcp_sock *tp)
{
	if (tp->data_segs_out < GENTLE_WINDOW && tp->snd_cwnd > GENTLE_WINDOW)
		tp->snd_cwnd = GENTLE_WINDOW;
}

/* The same; @wanted: the parameter. */
static __always_inline void gentle_open(struct tcp_sock *tp, struct gentle_start *gentle,
					bool wanted)
{
	gentle_start_init(gentle);
	if (wanted)
		gentle_begin(tp);
}

/* An ACK of @acked packets in slow start. The value of the macro: how many of them are left for
 * what comes after slow start. @rtt_us: the last valid sample, 0: none yet; @wanted: the
 * parameter; @left(sk) sets `avoiding`, calls gentle_left() and reports the end. It is a macro
 * because an argument must be read only where the conditions before it hold: the parameter is
 * volatile. */
#define gentle_slow_start(sk, state, rtt_us, wanted, left, acked)                                  \
	({                                                                                         \
		struct tcp_sock *__tp = tcp_of(sk);                                                \
		u32 __acked = (acked);                                                             \
                                                                                                   \
		if (!(state)->avoiding)                                                            \
			gentle_start_limited(&(state)->gentle, rtt_us);                            \
		if ((state)->avoiding || !(wanted))                                                \
			__acked = tcp_slow_start(__tp, __acked);                                   \
		else if ((rtt_us) && gentle_start_ack(&(state)->gentle, rtt_us))                   \
			left(sk);                                                                  \
		else                                                                               \
			__acked = tcp_slow_start(__tp,                                             \
						 gentle_start_counted(&(state)->gentle, __acked)); \
		__acked;                                                                           \
	})

/* An ACK while the window does not limit the flow: is it time to leave the first slow start? Less
 * than one packet of unsent data counts as no data: it may wait for more. */
static __always_inline bool gentle_held(struct tcp_sock *tp, struct gentle_start *gentle,
					bool avoiding, u32 rtt_us, u32 acked)
{
	if (law_likely(avoiding || !sock_in_slow_start(tp)))
		return false;
	return gentle_start_held(gentle, acked, tp->snd_cwnd, rtt_us,
				 tp->write_seq - tp->snd_nxt >= tp->mss_cache);
}

/* us: the smallest RTT that gentle_start has seen, 0: none */
static __always_inline u32 gentle_base_us(const struct gentle_start *gentle)
{
	return gentle->base_us == GENTLE_NO_RTT ? 0 : gentle->base_us;
}

/* Slow start ends at this window. Never 0: a direct store has no check. */
static __always_inline void gentle_left(struct tcp_sock *tp)
{
	tp->snd_ssthresh = tp->snd_cwnd ?: 1;
}

#endif
