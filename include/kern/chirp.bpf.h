/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The departures of a chirp: packets that an unmodified kernel sends at chosen instants.
 * law/chirp.h says when each step leaves. The ACKs are in kern/chirp_answer.bpf.h;
 * law/knee.h says what they mean.
 *
 * tcp_write_xmit() (net/ipv4/tcp_output.c) calls min_tso_segs() once, before the first
 * packet that it sends (tcp_xmit_retransmit_queue() calls it as well), arms its pacing timer
 * before it looks at the window, and computes the next departure from sk_pacing_rate when a
 * packet has left. So min_tso_segs() can let out one step, and set the time of the next one:
 *
 *	snd_cwnd = in flight + burst			one step, no more
 *	gap	 = t_next - now - lead, at least 1 ns	else no timer is armed
 *	len	 = gap + min(credit, gap)		what tcp_update_skb_after_send()
 *							takes off for lateness
 *	sk_pacing_rate = payload / len
 *
 *   NONE --> DRAINING ----------> SENDING -------------> RETURNING --> NONE
 *            nothing leaves       a step at its time     the flow goes on,
 *            until nothing is     (absolute, from step   each ACK is a
 *            in flight            0 on)                  step's sample
 *            [loan of the window: CHIRP           ]
 *
 *  1. A chirp begins with nothing in flight. Earlier data of the flow would be a queue
 *     before the first step, and while it is in flight tcp_tso_should_defer() holds
 *     single packets back for its ACKs. The last packet before the silence asks to be
 *     acknowledged at once, and the pacing timer ends the silence.
 *  2. From the end of a chirp until the first ACK the flow sends a window per RTT and
 *     not the kernel's 120 %: its pipe is empty, and filling it faster would be a queue
 *     at once (loan_return()).
 *  3. Behind the last step 5/16 of the chirp's duration stay empty. A chirp whose
 *     average rate is exactly the free rate leaves 0.28 of its duration in the queue (15
 *     steps of 1.2). Data that followed at once would keep that queue standing, and be
 *     marked for it.
 *  4. Every chirp packet carries CWR: a Linux receiver then acknowledges it at once, and
 *     forgets the mark of the packet before. So each ACK is that of one packet, with its
 *     own ECE.
 */
#ifndef CCBPF_KERN_CHIRP_BPF_H
#define CCBPF_KERN_CHIRP_BPF_H

#include "ccbpf/flow.h"
#include "kern/dscp.bpf.h"
#include "kern/loan.bpf.h"
#include "law/fixed.h"
/* The laws are functions of their own here. Inlined, the verifier would carry what it learns
 * in one loop of the number of steps into all loops that follow. */
#undef LAW
#undef INLINE_LAW
#define LAW static __attribute__((noinline, unused))
#define INLINE_LAW static inline
#include "law/chirp.h"
#include "law/range.h"
#undef LAW
#undef INLINE_LAW
#define LAW static inline
#define INLINE_LAW LAW

#define CHIRP_LEAD_NS 14000 /* from the timer's expiry to the device; measured */
#define CHIRP_GAP_NS 28000 /* shorter gaps are not kept; measured */
#define CHIRP_LATE_NS 10000 /* a step is late from this and a quarter of its gap on */
#define CHIRP_LATE_SHIFT 2
#define CHIRP_SPARE 2 /* packets queued behind the chirp's: its last packet must not be alone */
#define CHIRP_UNPACED 10 /* packets: tcp_update_skb_after_send() paces from then on */
#define CHIRP_PATIENCE_US 100000 /* beyond 4 RTT: for the silence, or for the feedback */
#define CHIRP_SLOTS 16 /* steps: a power of 2 from CHIRP_MOST on */
#define CHIRP_IDLE_SHIFT 3 /* the silence begins with 7/8 RTT by the timer */
#define CHIRP_TAIL_NUM 5 /* part of the chirp's time that stays empty behind it */
#define CHIRP_TAIL_SHIFT 4
#define NSEC_PER_SEC 1000000000ull
#define IPV4_HEADER 20
#define IPV6_HEADER 40

enum chirp_phase {
	CHIRP_NONE,
	CHIRP_DRAINING,
	CHIRP_SENDING,
	CHIRP_RETURNING,
};

enum chirp_turn { /* results of chirp_transmit(), besides enum ccbpf_chirp_end */
	CHIRP_GOES_ON = 0,
	CHIRP_ALL_LEFT = 64,
};

/* A connection's part, in icsk_ca_priv. */
struct chirp {
	u32 begin; /* sequence numbers: of the last chirp, and of the data behind it */
	u32 end;
	u8 phase; /* enum chirp_phase */
};

/* One chirp, in the socket's storage: its departures, and what came back. */
struct chirp_flight {
	struct knee_chirp c; /* the law's input */
	u64 at_ns[CHIRP_SLOTS]; /* when the first packet of each step left */
	u64 planned_ns; /* when the next step shall leave */
	u64 gap_ns; /* ... and the gap before it */
	u64 rate_q8; /* 1/256 kbit/s of the gap behind it */
	u64 begun_us; /* our clock: the silence began */
	u64 patience_us; /* our clock: give up then */
	u32 seq0; /* sequence number of step 0 */
	u32 seq; /* ... of the step that is next */
	u32 mss; /* payload of a packet */
	u8 plan; /* steps */
	u8 next; /* the step that is next */
	u8 heard; /* the first step without a sample */
	u8 dscp; /* for its packets */
	u8 dscp_was; /* DSCP_UNKNOWN: it was not changed */
};

/* The plan of a chirp. */
struct chirp_plan {
	u32 min_kbps;
	u32 spread; /* permille */
	u32 steps;
	u32 burst;
	u32 noise_us;
	u32 dscp; /* 0: leave it alone */
	u32 dscp_data; /* the DSCP of the data, if it is ours to change */
};

/* bytes of a full packet on the line, without the link's header */
static __always_inline u32 chirp_packet_bytes(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	return tp->mss_cache + tp->tcp_header_len + (dscp_v6(sk) ? IPV6_HEADER : IPV4_HEADER);
}

/* The next departure is gap_ns after the packet that leaves now. */
static __always_inline void chirp_pace(struct sock *sk, u64 payload, s64 gap_ns)
{
	struct tcp_sock *tp = tcp_of(sk);
	u64 now_ns = tp->tcp_clock_cache, was_ns = tp->tcp_wstamp_ns;
	u64 credit_ns = now_ns > was_ns ? now_ns - was_ns : 0;
	u64 len_ns = gap_ns > 1 ? gap_ns : 1;
	u64 rate;

	len_ns += credit_ns < len_ns ? credit_ns : len_ns;
	rate = payload * NSEC_PER_SEC / len_ns;
	sk->sk_pacing_rate = rate ?: 1;
}

/* Is there enough unsent data for @packets, and enough receive window? */
static __always_inline bool chirp_fed(struct tcp_sock *tp, u32 packets)
{
	u32 bytes = packets * tp->mss_cache;

	return tp->write_seq - tp->snd_nxt >= bytes &&
	       tp->snd_una + tp->snd_wnd - tp->snd_nxt >= bytes &&
	       !law_after(tp->snd_nxt, tp->snd_una + tp->snd_wnd);
}

static __always_inline bool chirp_calm(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	return sock_ca_state(sk) == TCP_CA_Open && !tp->sacked_out && !tp->lost_out &&
	       !tp->retrans_out;
}

/* Does the connection have all that a chirp needs before it begins? */
static __always_inline bool chirp_possible(struct sock *sk, u32 packets)
{
	struct tcp_sock *tp = tcp_of(sk);

	return chirp_calm(sk) && tp->data_segs_out >= CHIRP_UNPACED && tp->mss_cache &&
	       sk->sk_pacing_status <= SK_PACING_NEEDED && chirp_fed(tp, packets + CHIRP_SPARE);
}

static __always_inline void chirp_dscp_back(struct sock *sk, struct chirp_flight *f)
{
	u32 was = f->dscp_was;

	if (was == DSCP_UNKNOWN)
		return;
	f->dscp_was = DSCP_UNKNOWN;
	if (dscp_of(sk) == f->dscp)
		dscp_set(sk, was);
}

/* The chirp is over, for whatever reason. Not to be called in release(), see dscp.bpf.h. */
static __always_inline void chirp_end(struct sock *sk, struct loan *loan, struct chirp *ch,
				      struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (ch->phase == CHIRP_SENDING) {
		ch->end = tp->snd_nxt;
		tp->ecn_flags |= TCP_ECN_QUEUE_CWR; /* the receiver forgets the chirp's last mark */
	}
	ch->phase = CHIRP_NONE;
	if (loan->to == LOAN_CHIRP)
		loan_return(sk, loan);
	chirp_dscp_back(sk, f);
}

/* The silence before a chirp begins: the packet that leaves now is the last one. */
static __always_inline void chirp_begin(struct sock *sk, struct loan *loan, struct chirp *ch,
					struct chirp_flight *f, const struct chirp_plan *plan)
{
	struct tcp_sock *tp = tcp_of(sk);

	__builtin_memset(&f->c, 0, sizeof(f->c));
	f->c.min_kbps = plan->min_kbps;
	f->c.spread = chirp_spread(plan->spread);
	f->c.burst = plan->burst;
	f->c.bytes = plan->burst * chirp_packet_bytes(sk);
	f->c.noise_us = plan->noise_us;
	f->c.ecn = 1;
	f->mss = tp->mss_cache;
	f->plan = plan->steps;
	f->next = 0;
	f->heard = 0;
	f->dscp = plan->dscp;
	f->dscp_was = plan->dscp ? plan->dscp_data : DSCP_UNKNOWN;
	f->seq0 = tp->snd_nxt;
	f->begun_us = tp->tcp_mstamp;
	f->patience_us = f->begun_us + 4ull * sock_srtt_us(tp) + CHIRP_PATIENCE_US;
	loan_take(tp, loan, LOAN_CHIRP);
	ch->phase = CHIRP_DRAINING;
}

/* Hold packets back until nothing is in flight; true: nothing is. */
static __always_inline bool chirp_drain(struct sock *sk, struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 in_flight = sock_in_flight(tp), srtt_us = sock_srtt_us(tp);

	if (!in_flight)
		return true;
	tp->snd_cwnd = in_flight;
	if (tp->snd_nxt != f->seq0)
		return false;
	tp->snd_cwnd++;
	tp->ecn_flags |= TCP_ECN_QUEUE_CWR;
	chirp_pace(sk, f->mss, 1000ull * (srtt_us - (srtt_us >> CHIRP_IDLE_SHIFT)));
	return false;
}

static __always_inline void chirp_start(struct sock *sk, struct chirp *ch, struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (f->dscp_was != DSCP_UNKNOWN && (dscp_of(sk) != f->dscp_was || dscp_set(sk, f->dscp)))
		f->dscp_was = DSCP_UNKNOWN; /* the application has set it meanwhile */
	f->seq0 = tp->snd_nxt;
	f->seq = f->seq0;
	ch->begin = f->seq0;
	f->planned_ns = tp->tcp_clock_cache;
	f->gap_ns = 0;
	f->rate_q8 = (u64)f->c.min_kbps << CHIRP_RATE_SHIFT;
	ch->phase = CHIRP_SENDING;
}

/* The step that was next has left. */
static __always_inline void chirp_next(struct tcp_sock *tp, struct chirp_flight *f)
{
	f->c.steps++;
	f->next++;
	f->seq = tp->snd_nxt;
	f->gap_ns = chirp_gap_ns(f->rate_q8 >> CHIRP_RATE_SHIFT, f->c.bytes);
	f->planned_ns += f->gap_ns;
	f->rate_q8 = chirp_faster(f->rate_q8, f->c.spread);
}

/* Let the rest of a step leave now, and the next step at its time. */
static __always_inline void chirp_let_out(struct sock *sk, struct chirp_flight *f, u32 packets)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 in_flight = sock_in_flight(tp);
	u64 gap_ns = chirp_gap_ns(f->rate_q8 >> CHIRP_RATE_SHIFT, f->c.bytes);
	u64 now_ns = tp->tcp_clock_cache;
	s64 wait_ns = f->planned_ns + gap_ns - now_ns - CHIRP_LEAD_NS;

	if (f->next + 1 == f->plan)
		wait_ns = (now_ns - f->at_ns[0]) * CHIRP_TAIL_NUM >> CHIRP_TAIL_SHIFT;
	if (packets == f->c.burst)
		f->at_ns[law_index(f->next, CHIRP_SLOTS)] = now_ns;
	/* the kernel sends at most half of its window at once */
	tp->snd_cwnd = in_flight + law_max(packets, 2 * packets - law_min(in_flight, packets));
	tp->ecn_flags |= TCP_ECN_QUEUE_CWR;
	chirp_pace(sk, (u64)packets * f->mss, wait_ns);
}

/* Is the next step too late? Step 0 never is: it is the beginning. */
static __always_inline bool chirp_late(struct chirp_flight *f, u64 now_ns)
{
	return f->next && now_ns > f->planned_ns + CHIRP_LATE_NS + (f->gap_ns >> CHIRP_LATE_SHIFT);
}

/*
 * The kernel is about to send, in SENDING: sets what it may send. Returns CHIRP_GOES_ON,
 * CHIRP_ALL_LEFT, or why the chirp ends early.
 */
static __always_inline u32 chirp_transmit(struct sock *sk, struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 left = tp->snd_nxt - f->seq, mss = f->mss ?: 1;
	u32 packets = f->c.burst;
	u64 now_ns = tp->tcp_clock_cache;

	if (!chirp_calm(sk))
		return CCBPF_CHIRP_LOSS;
	if (left == packets * mss) {
		chirp_next(tp, f);
		left = 0;
	}
	if (f->next >= f->plan)
		return CHIRP_ALL_LEFT;
	if (left % mss || left > packets * mss || tp->mss_cache != mss)
		return CCBPF_CHIRP_DATA;
	if (sk->sk_pacing_status != SK_PACING_NEEDED)
		return CCBPF_CHIRP_OFF;
	if (tp->tcp_wstamp_ns > now_ns)
		return CHIRP_GOES_ON; /* not yet */
	packets -= left / mss;
	if (!chirp_fed(tp, packets + 1))
		return CCBPF_CHIRP_DATA;
	if (!f->next && !left)
		f->planned_ns = now_ns;
	if (chirp_late(f, now_ns))
		return CCBPF_CHIRP_LATE;
	chirp_let_out(sk, f, packets);
	return CHIRP_GOES_ON;
}

/* All steps that will leave have left: the flow goes on. */
static __always_inline void chirp_left(struct sock *sk, struct loan *loan, struct chirp *ch,
				       struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);

	chirp_end(sk, loan, ch, f);
	ch->phase = CHIRP_RETURNING;
	f->patience_us = tp->tcp_mstamp + 4ull * sock_srtt_us(tp) + CHIRP_PATIENCE_US;
}

#endif
