/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that leave at chosen instants, from an unmodified kernel, and what comes
 * back of them: the mechanism of a chirp (law/chirp.h says when its steps leave,
 * law/proecn.h what they say).
 *
 * tcp_write_xmit() (net/ipv4/tcp_output.c) asks min_tso_segs() each time before it
 * sends, arms its pacing timer before it looks at the window, and computes the next
 * departure from sk_pacing_rate when a packet has left. So whoever answers
 * min_tso_segs() can let out one step, and say when the next one leaves:
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
 *
 * A chirp begins with nothing in flight. Not only would own data be a queue before
 * the first step: while older data is in flight, tcp_tso_should_defer() holds single
 * packets back for its ACKs. The last packet before the silence asks to be
 * acknowledged at once, and the pacing timer ends the silence.
 *
 * While it lasts the flow's own window waits in chirp.window. Whatever ends it, early
 * or not, chirp_give_back() puts it and the pacing back; the next departure is one gap
 * away at the most. Until the first ACK comes the flow then sends a window per RTT, and
 * not the kernel's 120 %: its pipe is empty, and a full one would be a queue at once.
 *
 * The last step is followed by one packet more, as close as the timer goes: by how much
 * later it comes law/proecn.h knows what a packet takes at the bottleneck. Behind it 3/8
 * of the chirp's own time stay empty. A chirp whose average is what is free leaves 0.28
 * of its time in the queue (15 steps of 1.2), and that packet 0.07: data that followed at
 * once would keep that queue, and be marked for it.
 *
 * Every chirp packet carries CWR: a Linux receiver acknowledges it at once, and
 * forgets the mark of the one before. So each ACK is one packet's, with its own ECE.
 */
#ifndef CCBPF_KERN_CHIRP_BPF_H
#define CCBPF_KERN_CHIRP_BPF_H

#include "ccbpf/flow.h"
#include "kern/dscp.bpf.h"
#include "kern/pace.bpf.h"
/* Functions of their own: in one piece the verifier would carry what each loop made it
 * learn of the number of steps into all that follow. */
#undef LAW
#define LAW static __attribute__((noinline, unused))
#include "law/chirp.h"
#include "law/proecn.h"
#undef LAW
#define LAW static inline

#define CHIRP_LEAD_NS \
	14000 /* from the timer's expiry to the device; measured */
#define CHIRP_GAP_NS 28000 /* shorter gaps are not kept; measured */
#define CHIRP_LATE_NS \
	10000 /* later than this and a quarter of the gap: too late */
#define CHIRP_LATE_SHIFT 2
#define CHIRP_SPARE \
	2 /* packets queued beyond the chirp's: its last one is not alone */
#define CHIRP_UNPACED \
	10 /* packets: tcp_update_skb_after_send() paces from then on */
#define CHIRP_PATIENCE_US \
	100000 /* beyond 4 RTT: the silence, or the feedback */
#define CHIRP_SLOTS \
	16 /* CHIRP_MOST steps, and the packet behind the last one */
#define CHIRP_IDLE_SHIFT 3 /* the silence begins with 7/8 RTT by the timer */
#define NSEC_PER_SEC 1000000000ull
#define USEC_PER_SEC 1000000
#define IPV4_HEADER 20
#define IPV6_HEADER 40

enum chirp_phase {
	CHIRP_NONE,
	CHIRP_DRAINING,
	CHIRP_SENDING,
	CHIRP_RETURNING,
};

enum chirp_turn { /* of transmitting, besides enum ccbpf_chirp_end */
	CHIRP_GOES_ON = 0,
	CHIRP_ALL_LEFT = 64,
};

/* Of a connection, in icsk_ca_priv. */
struct chirp {
	u32 window; /* packets: the flow's own, while snd_cwnd is not it; else 0 */
	u32 ssthresh; /* packets: as it was then */
	u32 begin; /* sequence numbers: of the last chirp, and of what follows it */
	u32 end;
	u8 phase; /* enum chirp_phase */
};

/* One chirp, in the socket's storage. */
struct chirp_flight {
	struct proecn_chirp c; /* what the law gets */
	u64 at_ns[CHIRP_SLOTS]; /* each step's departure: its first packet's */
	u64 heard_ns; /* the newest sample's ACK */
	u64 planned_ns; /* of the step that is next */
	u64 gap_ns; /* before it */
	u64 rate_q8; /* 1/256 kbit/s of the gap after it */
	u64 begun_us; /* our clock: the silence began */
	u64 patience_us; /* our clock: give up then */
	u32 seq0; /* sequence number of step 0 */
	u32 seq; /* ... of the step that is next */
	u32 mss; /* payload of a packet */
	u8 plan; /* steps */
	u8 next; /* the step that is next; plan: the packet behind the last one */
	u8 heard; /* the first one without a sample */
	u8 dscp; /* for its packets */
	u8 dscp_was; /* DSCP_UNKNOWN: it was not changed */
};

/* What is asked for. */
struct chirp_plan {
	u32 min_kbps;
	u32 spread; /* permille */
	u32 steps;
	u32 burst;
	u32 noise_us;
	u32 dscp; /* 0: leave it alone */
	u32 dscp_data; /* what the data has, where it is ours to change */
};

/* bytes on the line of a full packet, without the link's header */
static __always_inline u32 chirp_packet_bytes(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	return tp->mss_cache + tp->tcp_header_len +
	       (dscp_v6(sk) ? IPV6_HEADER : IPV4_HEADER);
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

/* Is there enough to send for so many packets, and room for it at the receiver? */
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

	return sock_ca_state(sk) == TCP_CA_Open && !tp->sacked_out &&
	       !tp->lost_out && !tp->retrans_out;
}

/* Everything that a chirp needs before it begins. */
static __always_inline bool chirp_possible(struct sock *sk, u32 packets)
{
	struct tcp_sock *tp = tcp_of(sk);

	return chirp_calm(sk) && tp->data_segs_out >= CHIRP_UNPACED &&
	       tp->mss_cache && sk->sk_pacing_status <= SK_PACING_NEEDED &&
	       chirp_fed(tp, packets + CHIRP_SPARE);
}

/* Give the flow its window and its pacing: whatever happens in a chirp ends here. */
static __always_inline void chirp_give_back(struct sock *sk, struct chirp *ch)
{
	struct tcp_sock *tp = tcp_of(sk);
	u64 rate;

	if (!ch->window)
		return;
	rate = (u64)ch->window * tp->mss_cache * USEC_PER_SEC /
	       sock_srtt_us(tp);
	tp->snd_cwnd = ch->window;
	if (rate > sk->sk_max_pacing_rate) /* the application's limit */
		rate = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = rate ?: 1;
	ch->window = 0;
}

static __always_inline void chirp_dscp_back(struct sock *sk,
					    struct chirp_flight *f)
{
	u32 was = f->dscp_was;

	if (was == DSCP_UNKNOWN)
		return;
	f->dscp_was = DSCP_UNKNOWN;
	if (dscp_of(sk) == f->dscp)
		dscp_set(sk, was);
}

/* It is over, for whatever reason. Not in release(), see dscp.bpf.h. */
static __always_inline void chirp_end(struct sock *sk, struct chirp *ch,
				      struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (ch->phase == CHIRP_SENDING) {
		ch->end = tp->snd_nxt;
		tp->ecn_flags |= TCP_ECN_QUEUE_CWR; /* its last mark ends */
	}
	ch->phase = CHIRP_NONE;
	chirp_give_back(sk, ch);
	chirp_dscp_back(sk, f);
}

/* The silence before it begins: the packet that leaves now is the last one. */
static __always_inline void chirp_begin(struct sock *sk, struct chirp *ch,
					struct chirp_flight *f,
					const struct chirp_plan *plan)
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
	f->patience_us =
		f->begun_us + 4ull * sock_srtt_us(tp) + CHIRP_PATIENCE_US;
	ch->window = tp->snd_cwnd ?: 1;
	ch->ssthresh = tp->snd_ssthresh;
	ch->phase = CHIRP_DRAINING;
}

/* Nothing more leaves until nothing is in flight. True: it is so. */
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
	chirp_pace(sk, f->mss,
		   1000ull * (srtt_us - (srtt_us >> CHIRP_IDLE_SHIFT)));
	return false;
}

static __always_inline void chirp_start(struct sock *sk, struct chirp *ch,
					struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (f->dscp_was != DSCP_UNKNOWN &&
	    (dscp_of(sk) != f->dscp_was || dscp_set(sk, f->dscp)))
		f->dscp_was = DSCP_UNKNOWN; /* the application's, meanwhile */
	f->seq0 = tp->snd_nxt;
	f->seq = f->seq0;
	ch->begin = f->seq0;
	f->planned_ns = tp->tcp_clock_cache;
	f->gap_ns = 0;
	f->rate_q8 = (u64)f->c.min_kbps << CHIRP_RATE_SHIFT;
	ch->phase = CHIRP_SENDING;
}

/* packets of the step that is next */
static __always_inline u32 chirp_step_packets(struct chirp_flight *f)
{
	return f->next < f->plan ? f->c.burst : 1;
}

/* The step that was next has left. */
static __always_inline void chirp_next(struct tcp_sock *tp,
				       struct chirp_flight *f)
{
	if (f->next < f->plan)
		f->c.steps++;
	f->next++;
	f->seq = tp->snd_nxt;
	f->gap_ns = chirp_gap_ns(f->rate_q8 >> CHIRP_RATE_SHIFT, f->c.bytes);
	f->planned_ns += f->gap_ns;
	f->rate_q8 = chirp_faster(f->rate_q8, f->c.spread);
}

/* Let the rest of a step leave now, and the next one at its time. */
static __always_inline void chirp_let_out(struct sock *sk,
					  struct chirp_flight *f, u32 packets)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 in_flight = sock_in_flight(tp);
	u64 gap_ns = chirp_gap_ns(f->rate_q8 >> CHIRP_RATE_SHIFT, f->c.bytes);
	u64 now_ns = tp->tcp_clock_cache;
	s64 wait_ns = f->planned_ns + gap_ns - now_ns - CHIRP_LEAD_NS;

	if (f->next + 1 == f->plan)
		wait_ns = 1;
	else if (f->next == f->plan)
		wait_ns = (now_ns - f->at_ns[0]) * 3 >> 3;
	if (packets == chirp_step_packets(f))
		f->at_ns[law_index(f->next, CHIRP_SLOTS)] = now_ns;
	/* the kernel sends at most half of its window at once */
	tp->snd_cwnd =
		in_flight +
		law_max(packets, 2 * packets - law_min(in_flight, packets));
	tp->ecn_flags |= TCP_ECN_QUEUE_CWR;
	chirp_pace(sk, (u64)packets * f->mss, wait_ns);
}

/* Too late? Step 0 is the beginning, and the packet behind the last one has no time. */
static __always_inline bool chirp_late(struct chirp_flight *f, u64 now_ns)
{
	return f->next && f->next < f->plan &&
	       now_ns > f->planned_ns + CHIRP_LATE_NS +
				(f->gap_ns >> CHIRP_LATE_SHIFT);
}

/*
 * The kernel is about to send, in SENDING: what it may. Returns CHIRP_GOES_ON,
 * CHIRP_ALL_LEFT, or why it ends early.
 */
static __always_inline u32 chirp_transmit(struct sock *sk,
					  struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 left = tp->snd_nxt - f->seq, mss = f->mss ?: 1;
	u32 packets = chirp_step_packets(f);
	u64 now_ns = tp->tcp_clock_cache;

	if (!chirp_calm(sk))
		return CCBPF_CHIRP_LOSS;
	if (left == packets * mss) {
		chirp_next(tp, f);
		packets = chirp_step_packets(f);
		left = 0;
	}
	if (f->next > f->plan)
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
static __always_inline void chirp_left(struct sock *sk, struct chirp *ch,
				       struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);

	chirp_end(sk, ch, f);
	ch->phase = CHIRP_RETURNING;
	f->patience_us =
		tp->tcp_mstamp + 4ull * sock_srtt_us(tp) + CHIRP_PATIENCE_US;
}

/* How much later than the last step the packet behind it came: where it came no
 * closer than it was sent, the bottleneck has spaced them. */
static __always_inline void chirp_pair(struct chirp_flight *f, u64 now_ns)
{
	u32 last = law_index(f->plan - 1, CHIRP_SLOTS);
	u64 came_ns = now_ns - f->heard_ns;
	u64 sent_ns =
		f->at_ns[law_index(f->plan, CHIRP_SLOTS)] - f->at_ns[last];

	if (f->heard != f->plan || came_ns <= sent_ns)
		return;
	f->c.pair_us = came_ns / 1000;
	f->c.pair_bytes = f->c.bytes;
}

static __always_inline void chirp_sample(struct chirp_flight *f, u32 step,
					 u64 now_ns, bool ece)
{
	f->c.delay_us[law_index(step, CHIRP_MOST)] =
		(now_ns - f->at_ns[law_index(step, CHIRP_SLOTS)]) / 1000;
	f->c.sampled |= 1 << step;
	if (ece)
		f->c.ece |= 1 << step;
	f->heard_ns = now_ns;
}

/* Is this ACK of a chirp's packet, also of one that was discarded? Its mark is then
 * an answer. */
static __always_inline bool chirp_covers(struct tcp_sock *tp, struct chirp *ch)
{
	return law_after(tp->snd_una, ch->begin) &&
	       (ch->phase == CHIRP_SENDING || !law_after(tp->snd_una, ch->end));
}

/* An ACK of a packet, in SENDING or RETURNING: the newest step that it is of has a
 * sample. */
static __always_inline void chirp_acked(struct tcp_sock *tp,
					struct chirp_flight *f, bool ece)
{
	u32 bytes = f->mss * f->c.burst, span = tp->snd_una - f->seq0, step;

	if (!bytes || span < f->mss)
		return;
	step = (span - f->mss) / bytes;
	if (step < f->heard || step > f->next || step > f->plan)
		return;
	if (step < f->plan)
		chirp_sample(f, step, tp->tcp_clock_cache, ece);
	else
		chirp_pair(f, tp->tcp_clock_cache);
	f->heard = step + 1;
}

/* A mark ends it while it leaves: what has left is all there is. */
static __always_inline void chirp_cut_short(struct tcp_sock *tp,
					    struct chirp_flight *f)
{
	if (tp->snd_nxt - f->seq == chirp_step_packets(f) * f->mss)
		chirp_next(tp, f);
}

/* Has every packet come back, or is there nothing more to come? */
static __always_inline bool
chirp_returned(struct tcp_sock *tp, struct chirp *ch, struct chirp_flight *f)
{
	return f->heard >= f->next || !law_after(ch->end, tp->snd_una);
}

/* What a chirp says. A function of its own for the verifier, which then looks at it
 * once and not for each way that leads here. */
__noinline int chirp_estimate(struct proecn *pe, struct proecn_chirp *c,
			      struct proecn_estimate *e,
			      struct proecn_params *par, u32 now_kius)
{
	if (!pe || !c || !e || !par)
		return 0;
	proecn_pair(pe, c);
	proecn_estimate(c, e);
	proecn_result(pe, par, c, e, now_kius);
	return 0;
}

#endif
