// SPDX-License-Identifier: GPL-2.0-only
/*
 * NF-TCP: a background flow that is told early, by marks, and that takes what it has
 * measured to be free.
 *
 * M. Arumaithurai, X. Fu, K. K. Ramakrishnan: "NF-TCP: A Network Friendly TCP Variant
 * for Background Delay-Insensitive Applications", NETWORKING 2011. Sections and
 * equations are its own. The router that marks early is nf_red.
 *
 *	mark	 w -= b w, b = 12.5 %, once per RTT                  (eq. 2)
 *	loss	 w / 2
 *	ACK	 w += alpha BW_est RTT / (w packet), BW_est > 0      (eq. 7)
 *		 w += 1 / w,                         BW_est = 0      (eq. 8)
 *	BW_est	 by chirps: packets of the flow, ever closer together, until the
 *		 path queues them (ProECN, 3.2; law/proecn.h)
 *
 *	                  no mark and no loss for an RTT, and the pause is over
 *	   WINDOW ---------------------------------------------> CHIRP (kern/chirp.bpf.h)
 *	   eq. 7, 8  <------------------------------------------   its own packets, on
 *	      |        all steps left; loss, mark, late, no data   their own schedule
 *	      |
 *	      +-- mark: eq. 2, the estimate is void, no chirp for an RTT
 *	            at two packets: SMALL, a pair per 8 RTT, until one is unmarked
 *
 * Data packets carry LE (RFC 8622), chirp packets a DSCP of their own: the queue marks
 * these as soon as more than one packet waits.
 *
 * Where and why this is not the paper to the letter:
 *
 *  1. A loss halves: the paper does not say, and where nothing marks this is reno.
 *  2. No ECN agreed: no marks, so no chirps; w += 1 per RTT, half at a loss: reno.
 *     `flows` says ecn 0, and an event tells it.
 *  3. Packets leave in order, so a chirp's are in place of data, not beside it. It then
 *     measures all that the flow may have and not what is left beside it: the target of
 *     eq. 7's growth is 15/16 BW_est RTT, not that and the window (law/nf.h). And what
 *     the flow carries unmarked is free, so no chirp looks below it.
 *  4. A chirp begins with nothing in flight and so costs the flow an RTT. While the
 *     last estimate promises a quarter more than the flow has, or the search for the
 *     range goes on, the pause is the paper's (uniform, mean base RTT); else, and after
 *     a chirp that had to be discarded, they may take probe_cost (2 %) of the time. The
 *     first one after slow start's mark waits for no pause, nor does the search where the
 *     next mark discards that one.
 *  5. A chirp has no more packets than the window, and goes as fast as the timer
 *     reaches: beyond that steps are bursts (law/chirp.h).
 *  6. A mark on a chirp's packet is an answer, not congestion: the window stays. The
 *     kernel enters CWR all the same, so its window is held at ours until that ends; a
 *     loss or another mark meanwhile counts, though the kernel does not ask again.
 *  7. A chirp that a mark answers while it leaves ends there: faster steps would only
 *     make the queue longer.
 *  8. Every cut lowers ssthresh. Undo returns what a loss took and never a mark's cut,
 *     and the first slow start once: the second needless loss ends it.
 *  9. The window only grows while it is what limits the flow (RFC 7661's case). After an
 *     idle time the estimate is void.
 * 10. The kernel paces the flow from a base RTT of 2 ms on, from the first chirp on, and
 *     pairs always (kern/pace.bpf.h); in avoidance by 105 % of a window per RTT.
 * 11. An application that has set a DSCP of its own keeps it, on chirps as well.
 * 12. The kernel takes a cut over a whole RTT (PRR). Ours is there at once, as eq. 2 says:
 *     else half of that RTT's packets still meet the queue that was told of, are marked,
 *     and the flow is cut twice for one queue.
 * 13. Eq. 2 ends at two packets, in each RTT 1 to 3 % of a small link for each flow. A
 *     mark there, and pairs of packets leave apart (law/small_window.h), until one comes
 *     back without a mark.
 */
#include "kern/chirp.bpf.h"
#include "kern/flow.bpf.h"
#include "kern/gentle.bpf.h"
#include "kern/params.bpf.h"
#include "kern/small.bpf.h"
#include "law/aged.h"
#include "law/nf.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(nf_tcp);

struct nf_tcp_params
	params SEC(".data.params") = { NF_TCP_PARAMS(PARAM_DEFAULT) };

NF_TCP_PARAMS(PARAM_GETTER)

#define NF_TSO_SEGS \
	2 /* what the kernel takes by itself: sysctl_tcp_min_tso_segs */
#define NF_SMALL_SPREAD 4 /* RTT in which a window of one leaves: half a pair */
#define NF_RESTART 10 /* packets: TCP_INIT_CWND, include/net/tcp.h */
#define NF_HUNGRY_SHIFT 2 /* a target above the window by a quarter */
#define NF_BYTE_KBPS 125 /* bytes/s in a kbit/s */

enum nf_echo { /* what an ACK's ECE is of */
	NF_ECHO_NONE,
	NF_ECHO_DATA,
	NF_ECHO_CHIRP,
};

/* A connection's state, in icsk_ca_priv. */
struct nf {
	u64 due_us; /* our clock: not before this the next chirp */
	struct gentle_start gentle;
	struct aged rtt; /* us: base RTT */
	struct chirp chirp;
	u32 rtt_us; /* us: last valid sample */
	u32 turned_kius; /* 1024 us: this half of the memory began */
	u32 published_kius; /* 1024 us: the record was written */
	u32 clean_until; /* sequence number: the RTT of a mark or loss ends here */
	u32 credit; /* of the window's growth (law/nf.h) */
	u32 share_q8; /* 1/256 packet: what a window of ACKs adds */
	u32 target; /* packets: up to here */
	u32 delivered; /* packets, the kernel's count, at the last ACK in CWR */
	u32 loss_cwnd; /* packets: what a loss took and undo may give back */
	u8 echo; /* enum nf_echo, of the ACK that is processed */
	u8 dscp; /* of the data, DSCP_UNKNOWN: not known */
	u8 small; /* packets: the window while pairs leave apart, else 0 */
	u8 clean : 1; /* an RTT without mark and loss: a chirp may begin */
	u8 ours : 1; /* the kernel's CWR is for a mark on a chirp's packet */
	u8 stored : 1; /* there is a struct nf_probe */
	u8 avoiding : 1; /* slow start is behind us */
	u8 paced : 1; /* we switched the kernel's pacing on */
	u8 undone : 1; /* the kernel may raise ssthresh over a mark's cut */
	u8 open : 1; /* init() was there: the kernel asks ssthresh() before,
		      * when it has to send its SYN again */
	u8 resumed : 1; /* an undo has brought back the first slow start */
};

_Static_assert(sizeof(struct nf) <=
		       sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

/* What only chirps need, from the first one on. */
struct nf_probe {
	struct chirp_flight flight;
	struct proecn proecn;
	struct proecn_estimate estimate;
	u32 sent; /* chirps */
	u32 complete;
	u32 discarded;
	u32 bytes;
	u32 cost_us; /* of the last chirp: what it kept from the flow */
	u32 missed; /* chirps that were discarded since the last complete one */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct nf_probe);
} nf_probes SEC(".maps");

static __always_inline struct nf *nf_of(struct sock *sk)
{
	return ca_of(sk);
}

static __always_inline struct nf_probe *nf_probe_of(struct sock *sk)
{
	return bpf_sk_storage_get(&nf_probes, sk, 0, 0);
}

/* packets: the flow's window, also while a chirp or pairs use the kernel's */
static __always_inline u32 nf_window(struct tcp_sock *tp, struct nf *nf)
{
	return nf->chirp.window ?: nf->small ?: tp->snd_cwnd;
}

static __always_inline u32 nf_base_us(struct nf *nf)
{
	s32 base_us = aged_min(&nf->rtt);

	return base_us == AGED_NO_MIN ? 0 : base_us;
}

/* us: what the last packet met on top of the base RTT */
static __always_inline u32 nf_queue_us(struct nf *nf)
{
	u32 base_us = nf_base_us(nf);

	return nf->rtt_us > base_us ? nf->rtt_us - base_us : 0;
}

static __always_inline struct flow_event nf_now(struct nf *nf)
{
	return (struct flow_event){
		.rtt_us = nf->rtt_us,
		.delay_us = nf_queue_us(nf),
	};
}

static __always_inline void nf_event(struct sock *sk, struct nf *nf, u32 type,
				     u32 a, u32 b)
{
	struct flow_event e = nf_now(nf);

	e.type = type;
	e.a = a;
	e.b = b;
	flow_event(sk, &e);
}

/* --- measure ----------------------------------------------------------- */

/* Take this ACK's round trip. Only in state Open: elsewhere the last packet that
 * arrived may be a retransmitted one. */
static __always_inline void nf_measure(struct sock *sk, struct nf *nf)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 now_kius = tp->tcp_mstamp >> KIUS_SHIFT;
	u32 rtt_us = law_min(sock_rtt_us(tp), LAW_S32_MAX - 1);

	if (law_unlikely(sock_ca_state(sk) != TCP_CA_Open || !rtt_us))
		return;
	if (law_unlikely(now_kius - nf->turned_kius >=
			 param_rtt_memory() * KIUS_PER_S / 2)) {
		nf->turned_kius = now_kius;
		aged_turn(&nf->rtt, AGED_NO_MIN);
	}
	nf->rtt_us = rtt_us;
	aged_put_min(&nf->rtt, rtt_us);
	if (law_unlikely(!nf->clean) && law_after(tp->snd_una, nf->clean_until))
		nf->clean = 1;
}

/* No chirp for an RTT: also of a mark that comes while the kernel answers another. */
static __always_inline void nf_soiled(struct tcp_sock *tp, struct nf *nf)
{
	nf->clean = 0;
	nf->clean_until = tp->snd_nxt;
}

/* kbit/s that this flow has; in slow start the window is twice what was acknowledged. */
static __always_inline u32 nf_has_kbps(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	return nf_kbps(tp->snd_cwnd >> sock_in_slow_start(tp), sock_srtt_us(tp),
		       chirp_packet_bytes(sk));
}

/* What was estimated is void; there was this much at the most. */
static __noinline int nf_void(struct sock *sk, u32 most_kbps)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf->stored ? nf_probe_of(sk) : NULL;

	nf->credit = 0;
	nf->share_q8 = NF_SHARE_ONE;
	nf->target = 0;
	if (p)
		proecn_congested(&p->proecn, most_kbps);
	return 0;
}

/* A mark or a loss. That of the first slow start, which knows only that it went too far,
 * waits for no pause; and any slow start comes in bursts, which were too much, and not
 * what the flow had. */
static __always_inline void nf_congested(struct sock *sk, struct nf *nf)
{
	nf_soiled(tcp_of(sk), nf);
	if (!nf->avoiding)
		nf->due_us = 0;
	nf->avoiding = 1;
	nf_void(sk, sock_in_slow_start(tcp_of(sk)) ? ~0u : nf_has_kbps(sk));
}

/* --- chirps ------------------------------------------------------------ */

static __always_inline void nf_proecn_params(struct sock *sk,
					     struct proecn_params *par)
{
	u64 limit_kbps = sk->sk_max_pacing_rate / NF_BYTE_KBPS;
	u32 ceiling_kbps =
		chirp_ceiling_kbps(chirp_packet_bytes(sk), CHIRP_GAP_NS);

	par->spread = param_spread();
	par->steps = param_packets();
	par->alpha = param_alpha();
	par->floor_kbps = param_min_rate();
	par->ceiling_kbps = limit_kbps < ceiling_kbps ? limit_kbps
						      : ceiling_kbps;
}

/* BW_est into what an ACK adds. */
static __always_inline void nf_refresh(struct sock *sk, struct nf *nf,
				       struct nf_probe *p)
{
	u32 bw_kbps = proecn_bw_kbps(&p->proecn), base_us = nf_base_us(nf);
	u32 bytes = chirp_packet_bytes(sk);

	nf->share_q8 = nf_share_q8(param_alpha(), bw_kbps, base_us, bytes);
	nf->target = nf_target(0, bw_kbps, base_us, bytes);
}

/* Does the last estimate promise more than the flow has, or is it still to be found? */
static __always_inline bool nf_hungry(struct nf *nf, struct nf_probe *p,
				      u32 window)
{
	return p->proecn.searching ||
	       nf->target > window + (window >> NF_HUNGRY_SHIFT);
}

/* The next chirp: after the paper's pause; and where the last one was of little use, not
 * before its cost is small beside the time. */
static __always_inline void nf_pause(struct sock *sk, struct nf *nf,
				     struct nf_probe *p, bool useful)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 cost = param_probe_cost();
	u32 base_us = nf_base_us(nf) ?: sock_srtt_us(tp);
	u64 pause_us = proecn_pause_us(base_us, bpf_get_prandom_u32());

	if (!useful || !nf_hungry(nf, p, nf_window(tp, nf)))
		pause_us += (u64)p->cost_us * (1000 - cost) / cost;
	nf->due_us = tp->tcp_mstamp + pause_us;
}

/* It ended early: what it was for is not known. */
static __noinline int nf_chirp_discard(struct sock *sk, u32 why)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf_probe_of(sk);

	if (!p) {
		nf->chirp.phase = CHIRP_NONE;
		chirp_give_back(sk, &nf->chirp);
		return 0;
	}
	p->discarded++;
	p->cost_us = tcp_of(sk)->tcp_mstamp - p->flight.begun_us;
	chirp_end(sk, &nf->chirp, &p->flight);
	nf_pause(sk, nf, p,
		 why == CCBPF_CHIRP_MARK && p->proecn.searching && !p->missed);
	p->missed++;
	nf_event(sk, nf, CCBPF_EVENT_CHIRP_DISCARDED, why, p->flight.c.steps);
	return 0;
}

/* us: what a chirp kept from the flow, which would have sent so many packets in less
 * time */
static __always_inline u32 nf_chirp_cost(struct sock *sk, struct nf *nf,
					 struct chirp_flight *f)
{
	struct tcp_sock *tp = tcp_of(sk);
	u64 took_us = tp->tcp_mstamp - f->begun_us;
	u64 worth_us = (u64)f->c.steps * f->c.burst * sock_srtt_us(tp) /
		       law_max(nf_window(tp, nf), 1);

	return took_us > worth_us ? took_us - worth_us : 0;
}

/* All of it that will leave has left. */
static __always_inline void nf_chirp_left(struct sock *sk, struct nf *nf,
					  struct nf_probe *p)
{
	struct chirp_flight *f = &p->flight;

	p->cost_us = nf_chirp_cost(sk, nf, f);
	p->bytes += tcp_of(sk)->snd_nxt - f->seq0;
	chirp_left(sk, &nf->chirp, f);
	nf->due_us = f->patience_us;
	nf_event(sk, nf, CCBPF_EVENT_CHIRP, f->c.min_kbps, f->c.steps);
}

/* All of it came back. */
static __always_inline int nf_chirp_returned(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf_probe_of(sk);
	struct proecn_params par;

	if (!p)
		return 0;
	nf->chirp.phase = CHIRP_NONE;
	p->complete++;
	p->missed = 0;
	nf_proecn_params(sk, &par);
	chirp_estimate(&p->proecn, &p->flight.c, &p->estimate, &par,
		       tcp_of(sk)->tcp_mstamp >> KIUS_SHIFT);
	nf_refresh(sk, nf, p);
	nf_pause(sk, nf, p, p->estimate.verdict != PROECN_NONE);
	nf_event(sk, nf, CCBPF_EVENT_ESTIMATE, p->estimate.kbps,
		 proecn_bw_kbps(&p->proecn));
	return 0;
}

static __always_inline struct nf_probe *nf_probe_new(struct sock *sk,
						     struct nf *nf)
{
	struct proecn_params par;
	struct nf_probe *p;

	if (law_likely(nf->stored))
		return nf_probe_of(sk);
	p = bpf_sk_storage_get(&nf_probes, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!p)
		return NULL;
	nf_proecn_params(sk, &par);
	proecn_init(&p->proecn, &par);
	nf->stored = 1;
	return p;
}

/* Not static: the verifier then proves it once, for any argument. */
__noinline int nf_take_carried(struct proecn *p, struct proecn_params *par,
			       u32 kbps)
{
	if (p && par)
		proecn_carried(p, par, kbps);
	return 0;
}

/* What it had in its last round trip was free. */
static __always_inline void nf_carried(struct sock *sk, struct nf *nf)
{
	struct nf_probe *p = nf->stored ? nf_probe_of(sk) : NULL;
	struct proecn_params par;

	if (!p || !sock_cwnd_limited(tcp_of(sk)))
		return;
	nf_proecn_params(sk, &par);
	nf_take_carried(&p->proecn, &par, nf_has_kbps(sk));
}

/* Is the next chirp possible? Then it begins. */
static __noinline int nf_chirp_begin(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf_probe_new(sk, nf);
	struct tcp_sock *tp = tcp_of(sk);
	u32 window = tp->snd_cwnd, packet = chirp_packet_bytes(sk), max_kbps;
	struct chirp_plan plan;

	nf->due_us = tp->tcp_mstamp + sock_srtt_us(tp); /* if it is not */
	if (!p)
		return 0;
	plan.steps = proecn_next_steps(&p->proecn);
	plan.min_kbps = proecn_next_min_kbps(&p->proecn);
	plan.spread = param_spread();
	plan.noise_us = param_noise_floor();
	max_kbps = chirp_max_kbps(plan.min_kbps, plan.spread, plan.steps);
	plan.burst = chirp_burst(max_kbps, packet, CHIRP_GAP_NS);
	plan.steps = law_min(plan.steps, (window - 1) / law_max(plan.burst, 1));
	plan.dscp = nf->dscp && nf->dscp == param_dscp() ? param_probe_dscp()
							 : 0;
	plan.dscp_data = nf->dscp;
	if (plan.steps < CHIRP_LEAST || !sock_cwnd_limited(tp) ||
	    !chirp_possible(sk, plan.steps * plan.burst + 1))
		return 0;
	nf->paced |= pace_on(sk);
	p->sent++;
	chirp_begin(sk, &nf->chirp, &p->flight, &plan);
	return 0;
}

/* The kernel is about to send while a chirp is under way. Returns packets: how many it
 * may send at once. */
static __noinline u32 nf_chirp_step(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf_probe_of(sk);
	u32 turn;

	if (!p || !param_probe()) {
		nf_chirp_discard(sk, CCBPF_CHIRP_OFF);
		return NF_TSO_SEGS;
	}
	if (nf->chirp.phase == CHIRP_DRAINING) {
		if (!chirp_calm(sk)) {
			nf_chirp_discard(sk, CCBPF_CHIRP_LOSS);
			return NF_TSO_SEGS;
		}
		if (tcp_of(sk)->tcp_mstamp > p->flight.patience_us) {
			nf_chirp_discard(sk, CCBPF_CHIRP_STALE);
			return NF_TSO_SEGS;
		}
		if (!chirp_drain(sk, &p->flight))
			return 1;
		chirp_start(sk, &nf->chirp, &p->flight);
	}
	turn = chirp_transmit(sk, &p->flight);
	if (turn == CHIRP_GOES_ON)
		return p->flight.c.burst;
	if (turn == CHIRP_ALL_LEFT)
		nf_chirp_left(sk, nf, p);
	else
		nf_chirp_discard(sk, turn);
	return NF_TSO_SEGS;
}

/* An ACK while chirp packets are on their way. */
static __always_inline int nf_chirp_ack(struct sock *sk, bool ece)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf_probe_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	bool covers = chirp_covers(tp, &nf->chirp);

	if (!p)
		return 0;
	if (covers)
		chirp_acked(tp, &p->flight, ece);
	if (nf->chirp.phase == CHIRP_SENDING) {
		if (!ece || !covers)
			return 0;
		chirp_cut_short(tp, &p->flight);
		if (p->flight.c.steps < CHIRP_LEAST) {
			nf_chirp_discard(sk, CCBPF_CHIRP_SHORT);
			return 0;
		}
		nf_chirp_left(sk, nf, p);
	}
	if (chirp_returned(tp, &nf->chirp, &p->flight))
		nf_chirp_returned(sk);
	return 0;
}

/* --- small windows ----------------------------------------------------- */

static __always_inline u32 nf_gap_us(struct sock *sk, struct nf *nf)
{
	struct tcp_sock *tp = tcp_of(sk);

	return small_gap(tp, nf->small, NF_SMALL_SPREAD,
			 nf_base_us(nf) ?: sock_srtt_us(tp));
}

/* A mark, and eq. 2 takes no more: pairs of packets leave apart. */
static __noinline int nf_small_enter(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	bool was_small = nf->small;

	nf->small = 1;
	nf->paced |= pace_on(sk);
	if (!was_small)
		nf_event(sk, nf, CCBPF_EVENT_SMALL_ENTER, nf_gap_us(sk, nf), 0);
	return 0;
}

/* An ACK without a mark: of a pair, or of its half, or of a packet that was sent before
 * the last mark or again, which says nothing. */
static __noinline int nf_small_act(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);

	if (sock_ca_state(sk) != TCP_CA_Open)
		return 0;
	small_keep(tp);
	if (tp->packets_out || !nf->clean)
		return 0;
	nf->small = 0;
	tp->snd_cwnd = NF_LEAST;
	nf_event(sk, nf, CCBPF_EVENT_SMALL_LEAVE, NF_LEAST, 0);
	return 0;
}

/* --- act --------------------------------------------------------------- */

static __noinline int nf_gentle_left(struct sock *sk)
{
	struct nf *nf = nf_of(sk);

	nf->avoiding = 1;
	gentle_left(tcp_of(sk));
	nf_event(sk, nf, CCBPF_EVENT_SLOW_START_END, nf->rtt_us,
		 nf->gentle.base_us);
	return 0;
}

static __always_inline void nf_act(struct sock *sk, struct nf *nf, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 window;

	if (law_unlikely(nf->undone)) { /* see undo_cwnd() */
		nf->undone = 0;
		sock_cut_cwnd(tp, tp->snd_cwnd);
	}
	if (law_unlikely(nf->small)) {
		nf_small_act(sk);
		return;
	}
	if (law_unlikely(nf->chirp.window) || !sock_cwnd_limited(tp))
		return;
	if (law_unlikely(sock_in_slow_start(tp)))
		acked = gentle_slow_start(sk, nf, nf->rtt_us,
					  param_gentle_start(), nf_gentle_left,
					  acked);
	if (!acked)
		return;
	window = nf_grow(&nf->credit, tp->snd_cwnd, acked, nf->share_q8,
			 nf->target);
	if (law_unlikely(window != tp->snd_cwnd))
		tp->snd_cwnd = law_min(window, tp->snd_cwnd_clamp) ?: 1;
}

/* The kernel's CWR for a chirp's mark: the flow's own window goes on. */
static __always_inline void nf_act_in_cwr(struct sock *sk, struct nf *nf)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 acked = tp->delivered - nf->delivered;

	nf->delivered = tp->delivered;
	if (!nf->ours || nf->chirp.phase == CHIRP_SENDING)
		return;
	if (nf->chirp.window >= nf->chirp.ssthresh && sock_cwnd_limited(tp))
		nf->chirp.window =
			law_min(nf_grow(&nf->credit, nf->chirp.window, acked,
					nf->share_q8, nf->target),
				tp->snd_cwnd_clamp ?: 1);
}

/* A mark or a loss in such a CWR, of which the kernel does not ask: it is answered
 * all the same. */
static __noinline u32 nf_reduce(struct sock *sk, bool loss)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);
	struct ccbpf_flow *f = flow_of(sk);
	struct flow_event e;
	u32 window, to;

	if (nf->chirp.phase != CHIRP_NONE)
		nf_chirp_discard(sk,
				 loss ? CCBPF_CHIRP_LOSS : CCBPF_CHIRP_MARK);
	chirp_give_back(sk, &nf->chirp);
	nf->ours = 0;
	window = nf->small ? NF_LEAST : tp->snd_cwnd;
	if (!loss && nf->echo == NF_ECHO_DATA) {
		to = nf_cut(window, param_decrease());
		if (window <= NF_LEAST)
			nf_small_enter(sk);
		flow_count(indications);
		if (f)
			f->indications++;
	} else {
		to = sock_reno_ssthresh(tp);
	}
	e = nf_now(nf);
	flow_reduced(sk, &e, loss, to);
	nf_congested(sk, nf);
	nf->loss_cwnd = loss ? window : 0;
	return to;
}

/* --- publish ------------------------------------------------------------ */

static __always_inline enum ccbpf_phase nf_phase(struct sock *sk, struct nf *nf)
{
	if (nf->small && sock_ca_state(sk) <= TCP_CA_CWR)
		return CCBPF_PHASE_SMALL;
	if (sock_ca_state(sk) >= TCP_CA_CWR && !nf->ours)
		return CCBPF_PHASE_RECOVERY;
	return flow_phase(tcp_of(sk));
}

static __always_inline void nf_fill_probe(struct nf_probe *p, u32 now_kius,
					  struct ccbpf_flow_nf *own)
{
	u32 steps = proecn_next_steps(&p->proecn);

	own->probe_bytes = p->bytes;
	own->estimate_kbps = proecn_bw_kbps(&p->proecn);
	if (p->proecn.at_kius)
		own->estimate_age_ms =
			((u64)proecn_age_kius(&p->proecn, now_kius)
			 << KIUS_SHIFT) /
			1000;
	own->chirps_sent = p->sent;
	own->chirps_complete = p->complete;
	own->chirps_discarded = p->discarded;
	own->range_min_kbps = proecn_next_min_kbps(&p->proecn);
	own->range_max_kbps =
		chirp_max_kbps(own->range_min_kbps, param_spread(), steps);
}

static __noinline int nf_fill(struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf->stored ? nf_probe_of(sk) : NULL;

	if (p)
		nf_refresh(sk, nf, p);
	if (!f)
		return 0;
	flow_fill(tp, f);
	f->cwnd = nf_window(tp, nf);
	f->phase = nf_phase(sk, nf);
	f->delay_source = sock_ecn(tp) ? CCBPF_SIGNAL_ECN : CCBPF_SIGNAL_RTT;
	f->rtt_us = nf->rtt_us;
	f->rtt_min_us = nf_base_us(nf);
	f->delay_us = nf_queue_us(nf);
	f->nf.estimate_age_ms = ~0u;
	f->nf.target = nf->target;
	f->nf.share_milli = (u64)nf->share_q8 * 1000 >> NF_SHARE_SHIFT;
	f->nf.dscp = nf->dscp == DSCP_UNKNOWN ? 0 : nf->dscp;
	f->nf.chirping = nf->chirp.phase != CHIRP_NONE;
	if (p)
		nf_fill_probe(p, tp->tcp_mstamp >> KIUS_SHIFT, &f->nf);
	return 0;
}

static __always_inline void nf_publish(struct sock *sk, struct nf *nf)
{
	if (law_likely(!flow_due(tcp_of(sk), &nf->published_kius)))
		return;
	nf_fill(sk);
	nf->paced = pace_keep(sk, nf->paced,
			      nf->stored || nf->small ||
				      nf_base_us(nf) >= param_pace_rtt());
}

/* --- the ops ------------------------------------------------------------ */

SEC("struct_ops")
void BPF_PROG(nf_tcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct nf *nf = nf_of(sk);

	nf_measure(sk, nf);
	nf_act(sk, nf, acked);
	nf_publish(sk, nf);
}

SEC("struct_ops")
void BPF_PROG(nf_tcp_in_ack_event, struct sock *sk, __u32 flags)
{
	struct nf *nf = nf_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	bool ece = flags & CA_ACK_ECE;
	u32 to;

	nf->echo = NF_ECHO_NONE;
	if (law_unlikely(ece))
		nf->echo = chirp_covers(tp, &nf->chirp) ? NF_ECHO_CHIRP
							: NF_ECHO_DATA;
	if (law_unlikely(nf->chirp.phase >= CHIRP_SENDING))
		nf_chirp_ack(sk, ece);
	if (law_unlikely(nf->echo == NF_ECHO_DATA))
		nf_soiled(tp, nf);
	if (law_likely(sock_ca_state(sk) != TCP_CA_CWR))
		return;
	if (nf->ours && nf->echo == NF_ECHO_DATA) {
		to = nf_reduce(sk, false);
		sock_cut_cwnd(tp, to);
	}
	nf_act_in_cwr(sk, nf);
	nf_publish(sk, nf); /* cong_avoid() is not asked then */
}

SEC("struct_ops")
__u32 BPF_PROG(nf_tcp_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);

	if (law_unlikely(nf->ours)) { /* what the kernel's CWR has taken */
		if (nf->chirp.window && sock_ca_state(sk) == TCP_CA_CWR)
			tp->snd_cwnd = nf->chirp.window;
		return NF_TSO_SEGS;
	}
	if (law_unlikely(nf->small)) {
		if (sock_ca_state(sk) <= TCP_CA_CWR)
			small_keep(tp);
		return NF_TSO_SEGS;
	}
	if (law_unlikely(sock_ca_state(sk) == TCP_CA_CWR &&
			 tp->snd_cwnd > tp->snd_ssthresh)) /* 12. */
		tp->snd_cwnd = tp->snd_ssthresh ?: 1;
	if (law_likely(!nf->chirp.window))
		pace_even(sk);
	if (law_likely(!nf->chirp.window &&
		       (!nf->clean || tp->tcp_mstamp < nf->due_us)))
		return NF_TSO_SEGS;
	if (!nf->chirp.window) {
		if (nf->chirp.phase == CHIRP_RETURNING) {
			nf_chirp_discard(sk, CCBPF_CHIRP_STALE);
		} else if (sock_ecn(tp) && param_probe()) {
			nf_carried(sk, nf);
			nf_chirp_begin(sk);
		} else {
			nf->due_us = tp->tcp_mstamp + sock_srtt_us(tp);
		}
		if (!nf->chirp.window)
			return NF_TSO_SEGS;
	}
	return nf_chirp_step(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(nf_tcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);
	bool loss = tp->lost_out || nf->echo == NF_ECHO_NONE;
	u32 to;

	if (!nf->open)
		return sock_reno_ssthresh(tp);
	nf->delivered = tp->delivered;
	if (!loss && nf->echo == NF_ECHO_CHIRP && !nf->small) {
		if (nf->chirp.window) /* the next one has begun */
			nf_chirp_discard(sk, CCBPF_CHIRP_MARK);
		nf->ours = 1;
		nf->chirp.window = tp->snd_cwnd ?: 1;
		nf->chirp.ssthresh = tp->snd_ssthresh;
		return nf->chirp.window;
	}
	to = nf_reduce(sk, loss);
	nf_fill(sk);
	if (loss || !nf->small)
		flow_repairs(sk, to);
	return to;
}

/* Recovery out of a CWR that was a chirp's: the kernel does not ask ssthresh(). After a
 * timeout it has set its window before it tells, and that is what stays. */
SEC("struct_ops")
void BPF_PROG(nf_tcp_set_state, struct sock *sk, __u8 state)
{
	struct nf *nf = nf_of(sk);
	u32 cwnd, to;

	if (state < TCP_CA_Recovery || !nf->open || !nf->ours)
		return;
	cwnd = tcp_of(sk)->snd_cwnd;
	to = nf_reduce(sk, true);
	tcp_of(sk)->snd_ssthresh = to;
	if (state == TCP_CA_Loss)
		tcp_of(sk)->snd_cwnd = cwnd ?: 1;
	nf_fill(sk);
	flow_repairs(sk, to);
}

/* Nothing was in flight and the first packets leave. */
static __always_inline void nf_transmit_start(struct sock *sk, struct nf *nf)
{
	if (flow_idle(tcp_of(sk), nf->published_kius))
		nf_void(sk, ~0u);
	if (law_unlikely(nf->small))
		small_depart(sk, nf_gap_us(sk, nf));
}

/* In place of cwnd_event()'s, where that does not tell (kern/compat.bpf.h, 3.) */
SEC("?struct_ops")
void BPF_PROG(nf_tcp_tx_start, struct sock *sk)
{
	nf_transmit_start(sk, nf_of(sk));
}

SEC("struct_ops")
void BPF_PROG(nf_tcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct nf *nf = nf_of(sk);
	u32 ssthresh = nf->chirp.ssthresh;

	if (event == CA_EVENT_TX_START)
		nf_transmit_start(sk, nf);
	if (event == CA_EVENT_CWND_RESTART) /* nor after an idle time */
		nf->chirp.window = law_min(nf->chirp.window, NF_RESTART);
	if (event != CA_EVENT_COMPLETE_CWR || !nf->ours)
		return;
	nf->ours = 0;
	chirp_give_back(sk, &nf->chirp);
	tcp_of(sk)->snd_ssthresh = ssthresh;
}

/* The kernel found a reduction to be needless. What a loss took comes back; a mark's
 * cut since then (loss_cwnd = 0) stays, and so must ssthresh, which the kernel
 * restores after this call: the next ACK takes it down again. And again where the first
 * slow start comes back a second time, as in the TCP-LP family (lp_undo()). */
SEC("struct_ops")
__u32 BPF_PROG(nf_tcp_undo_cwnd, struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	bool unbounds = sock_undo_unbounds(tcp_of(sk));
	u32 now = tcp_of(sk)->snd_cwnd, cwnd = law_max(now, nf->loss_cwnd);
	struct flow_event e = nf_now(nf);

	nf->undone = !nf->loss_cwnd || (unbounds && nf->resumed);
	nf->resumed |= unbounds;
	flow_undone(sk, &e, cwnd - now);
	return cwnd ?: 1;
}

SEC("struct_ops")
void BPF_PROG(nf_tcp_init, struct sock *sk)
{
	static const char name[CCBPF_NAME_LEN] = "nf_tcp";
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);

	gentle_open(tp, &nf->gentle, param_gentle_start());
	aged_reset(&nf->rtt, AGED_NO_MIN);
	nf->due_us = 0;
	nf->chirp.window = 0;
	nf->chirp.ssthresh = 0;
	nf->chirp.begin = tp->snd_nxt;
	nf->chirp.end = tp->snd_nxt;
	nf->chirp.phase = CHIRP_NONE;
	nf->rtt_us = 0;
	nf->turned_kius = tp->tcp_mstamp >> KIUS_SHIFT;
	nf->published_kius = 0;
	nf->clean_until = tp->snd_nxt;
	nf->credit = 0;
	nf->share_q8 = NF_SHARE_ONE;
	nf->target = 0;
	nf->delivered = tp->delivered;
	nf->loss_cwnd = 0;
	nf->echo = NF_ECHO_NONE;
	nf->small = 0;
	nf->clean = 0;
	nf->ours = 0;
	nf->stored = 0;
	nf->avoiding = tp->snd_ssthresh < TCP_INFINITE_SSTHRESH;
	nf->paced = 0;
	nf->undone = 0;
	nf->resumed = 0;
	nf->open = 1;
	nf->dscp = dscp_begin(sk, param_dscp());
	flow_open(sk, name);
	nf_event(sk, nf, CCBPF_EVENT_OPENED, sock_ecn(tp), sock_timestamps(tp));
	nf_fill(sk);
	if (sock_ecn(tp))
		return;
	flow_count(fallbacks);
	nf_event(sk, nf, CCBPF_EVENT_FALLBACK, CCBPF_SIGNAL_ECN,
		 CCBPF_SIGNAL_RTT);
}

SEC("struct_ops")
void BPF_PROG(nf_tcp_release, struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct nf *nf = nf_of(sk);

	chirp_give_back(sk, &nf->chirp);
	if (nf->small)
		tcp_of(sk)->snd_cwnd = NF_LEAST;
	nf_event(sk, nf, CCBPF_EVENT_CLOSED, f ? f->indications : 0,
		 f ? f->losses : 0);
	if (nf->paced)
		pace_off(sk);
	if (nf->stored)
		bpf_sk_storage_delete(&nf_probes, sk);
	flow_close(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops nf_tcp = {
	.cong_avoid = (void *)nf_tcp_cong_avoid,
	.in_ack_event = (void *)nf_tcp_in_ack_event,
	.min_tso_segs = (void *)nf_tcp_min_tso_segs,
	.ssthresh = (void *)nf_tcp_ssthresh,
	.set_state = (void *)nf_tcp_set_state,
	.undo_cwnd = (void *)nf_tcp_undo_cwnd,
	.cwnd_event = (void *)nf_tcp_cwnd_event,
	.init = (void *)nf_tcp_init,
	.release = (void *)nf_tcp_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "nf_tcp",
};
