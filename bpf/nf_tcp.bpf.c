// SPDX-License-Identifier: GPL-2.0-only
/*
 * NF-TCP: a background flow that routers mark early, and that takes the bandwidth which
 * it has measured to be free.
 *
 * M. Arumaithurai, X. Fu, K. K. Ramakrishnan: "NF-TCP: A Network Friendly TCP Variant
 * for Background Delay-Insensitive Applications", NETWORKING 2011. Section and equation
 * numbers are those of the paper. The router that marks early is nf_red.
 *
 *	mark	 w -= b w, b = 12.5 %, once per RTT                  (eq. 2)
 *	loss	 w / 2
 *	ACK	 w += alpha BW_est RTT_min / (w packet), BW_est > 0  (eq. 7)
 *		 w += 1 / w,                         BW_est = 0      (eq. 8)
 *	BW_est	 by chirps: packets of the flow, ever closer together, until the
 *		 path queues them (ProECN, 3.2; law/knee.h, law/range.h)
 *
 *	                  no mark and no loss for an RTT, and the pause is over
 *	   WINDOW ---------------------------------------------> CHIRP (kern/probe.bpf.h)
 *	   eq. 7, 8  <------------------------------------------   packets of the flow,
 *	      |        all steps left; loss, mark, late, no data   each at its own time
 *	      |
 *	      +-- mark: eq. 2, the estimate is void, no chirp for an RTT
 *	            at two packets: SMALL, a pair per 8 RTT, until one is unmarked
 *
 * Data packets carry LE (RFC 8622), chirp packets a DSCP of their own: the queue marks
 * those as soon as more than one packet waits. kern/nf.bpf.h lists the rooms.
 *
 * Deviations from the paper:
 *
 *  1. A loss halves the window: eq. 2 is for any congestion that is detected, but where
 *     nothing marks, 12.5 % would take the link from reno. After two losses with no queue of
 *     4 ms between them it grows at half that speed or less: a policer and a buffer of a few
 *     packets drop without a queue, and there eq. 8 would take the link from others (law/nf.h,
 *     8.).
 *     A loss while the kernel answers a mark halves it too (kern/pardon.bpf.h).
 *  2. No ECN agreed: no marks, so no chirps; w += 1 per RTT, half at a loss, as reno (see 1.).
 *     `flows` shows ecn 0, and an event reports it. Nor are there chirps with accurate ECN,
 *     which does not echo each packet's mark, nor where fq paces the socket (kern/probe.bpf.h).
 *  3. Packets leave in order, so a chirp's packets replace data instead of being sent
 *     beside it. A chirp then measures all that the flow may have, not what is left
 *     beside it: eq. 7 grows up to 15/16 BW_est RTT, not up to that plus the window
 *     (law/nf.h). What the flow carries unmarked is free: no chirp looks below it. RTT in
 *     eq. 7 is RTT_min, or a queue would make the window grow faster. A chirp averages twice
 *     alpha BW_est (law/range.h, 3.).
 *  4. A chirp begins with nothing in flight and so costs the flow an RTT. Pauses are the
 *     paper's only while there is something to find (kern/probe.bpf.h), and there is no
 *     chirp in the first slow start. With early_probe (off) the search goes on while a chirp
 *     finds half of its end or more, and N steps do not end it; BW_est is then that end.
 *  5. A chirp is as fast as the timer allows: steps faster than that are bursts
 *     (law/chirp.h), of no more packets than the window.
 *  6. A mark on a chirp's packet is an answer, not congestion: the window stays
 *     (kern/pardon.bpf.h). A chirp that is marked while it is still being sent ends.
 *  7. An estimate ends slow start, as the paper's "switches over" to eq. 7 says; the part
 *     of the window above the estimate's target is then given up. A window that is no
 *     limit while the delay is high ends slow start too (law/gentle_start.h).
 *  8. b doubles with each mark, up to decrease_most, and halves with each unmarked RTT.
 *     It does not double before the first unmarked RTT after slow start, because slow
 *     start's overshoot is the flow's own. After a single mark and an unmarked RTT eq. 7
 *     goes back to 15/16 of the window that was marked (`back`).
 *  9. Every cut lowers ssthresh. Undo returns what a loss took, never a mark's cut, and
 *     the first slow start only once: the second needless loss ends it.
 * 10. The window only grows while it is what limits the flow (the case of RFC 7661). An
 *     idle time makes the estimate void.
 * 11. The kernel paces the flow from a base RTT of 2 ms on, from the first chirp on, and
 *     pairs always (kern/pace.bpf.h); in avoidance at 105 % of a window per RTT.
 * 12. An application that has set a DSCP keeps it, on chirps as well.
 * 13. The kernel spreads a cut over a whole RTT (PRR). Our cut is immediate, as in eq. 2:
 *     otherwise half of that RTT's packets still meet the queue that was reported, are
 *     marked, and the flow is cut twice for one queue.
 * 14. Eq. 2 ends at two packets per RTT, which is 1 to 3 % of a small link for each flow.
 *     A mark there makes pairs of packets leave far apart (law/small_window.h), until one
 *     pair comes back without a mark.
 * 15. Chirps that promise more than there is, by error or because the receiver lies,
 *     become rare (law/range.h, 6.).
 */
#include "kern/nf_record.bpf.h"
#include "kern/nf_reduce.bpf.h"
#include "kern/nf_small.bpf.h"
#include "kern/pardon.bpf.h"
#include "kern/probe.bpf.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(nf_tcp);

struct nf_tcp_params params SEC(".data.params") = { NF_TCP_PARAMS(PARAM_DEFAULT) };

#define NF_RESTART 10 /* packets: TCP_INIT_CWND, include/net/tcp.h */

/* --- measure ----------------------------------------------------------- */

/* An RTT without mark and loss is over. */
static __always_inline void nf_unmarked(struct tcp_sock *tp, struct nf *nf)
{
	nf->clean = 1;
	nf->calm |= nf->avoiding;
	nf->row -= !!nf->row;
	nf->clean_until = tp->snd_nxt;
}

/* Take this ACK's round trip. Only in state Open: in other states the last packet that
 * arrived may be a retransmission. */
static __always_inline void nf_measure(struct sock *sk, struct nf *nf)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 now_kius = tp->tcp_mstamp >> KIUS_SHIFT;
	u32 rtt_us = law_min(sock_rtt_us(tp), LAW_S32_MAX - 1);

	if (law_unlikely(sock_ca_state(sk) != TCP_CA_Open || !rtt_us))
		return;
	if (law_unlikely(now_kius - nf->turned_kius >= param_rtt_memory() * KIUS_PER_S / 2)) {
		nf->turned_kius = now_kius;
		aged_turn(&nf->rtt, AGED_NO_MIN);
	}
	nf->rtt_us = rtt_us;
	aged_put_min(&nf->rtt, rtt_us);
	if (law_unlikely(nf->bare) && nf_queue_us(nf) > NF_BARE_US)
		nf->bare = 0;
	if (law_unlikely(!nf->clean || nf->row) && law_after(tp->snd_una, nf->clean_until))
		nf_unmarked(tp, nf);
}

/* --- act --------------------------------------------------------------- */

static __always_inline void nf_act(struct sock *sk, struct nf *nf, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 window;

	if (law_unlikely(nf->undone)) { /* see undo_cwnd() */
		nf->undone = 0;
		sock_cut_cwnd(tp, tp->snd_cwnd);
	}
	if (law_unlikely(nf_small(nf))) {
		nf_small_act(sk);
		return;
	}
	if (law_unlikely(nf->loan.to == LOAN_CHIRP))
		return;
	if (!sock_cwnd_limited(tp)) {
		if (gentle_held(tp, &nf->gentle, nf->avoiding, nf->rtt_us, acked))
			nf_gentle_left(sk);
		return;
	}
	if (law_unlikely(sock_in_slow_start(tp)))
		acked = nf_slow_start(sk, nf, acked);
	if (!acked)
		return;
	window = nf_grown(tp, nf, tp->snd_cwnd, acked);
	if (law_unlikely(window != tp->snd_cwnd))
		tp->snd_cwnd = window;
	if (law_unlikely(nf->doubted) && window >= nf->target)
		probe_reached(sk);
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

	nf->echo = NF_ECHO_NONE;
	if (law_unlikely(ece)) {
		nf->echo = chirp_covers(tp, &nf->chirp) ? NF_ECHO_CHIRP : NF_ECHO_DATA;
		nf->marked = 1;
		nf->bare = 0;
	}
	if (law_unlikely(nf->chirp.phase >= CHIRP_SENDING))
		probe_ack(sk, ece);
	if (law_unlikely(nf->echo == NF_ECHO_DATA))
		nf_soiled(tp, nf);
	if (law_likely(sock_ca_state(sk) != TCP_CA_CWR))
		return;
	if (nf->echo == NF_ECHO_DATA && pardon_given(nf))
		pardon_refuse(sk);
	pardon_act(sk, nf);
	nf_publish(sk, nf); /* cong_avoid() is not called then */
}

SEC("struct_ops")
__u32 BPF_PROG(nf_tcp_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);
	u8 state = sock_ca_state(sk);

	switch (nf->loan.to) {
	case LOAN_PARDON: /* what the kernel's CWR has taken */
		if (state == TCP_CA_CWR)
			loan_hold(tp, &nf->loan);
		return NF_TSO_SEGS;
	case LOAN_PAIRS:
		if (state <= TCP_CA_CWR)
			small_pairs(tp);
		return NF_TSO_SEGS;
	case LOAN_CHIRP:
		return probe_step(sk);
	}
	if (law_unlikely(state == TCP_CA_CWR && tp->snd_cwnd > tp->snd_ssthresh)) /* 13. */
		tp->snd_cwnd = tp->snd_ssthresh ?: 1;
	pace_even(sk);
	if (law_likely(!nf->clean || tp->tcp_mstamp < nf->due_us))
		return NF_TSO_SEGS;
	if (nf->chirp.phase == CHIRP_RETURNING)
		probe_discard(sk, CCBPF_CHIRP_STALE);
	else
		probe_begin(sk);
	return nf->loan.to == LOAN_CHIRP ? probe_step(sk) : NF_TSO_SEGS;
}

SEC("struct_ops")
__u32 BPF_PROG(nf_tcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);
	bool loss = law_forget(tp->lost_out || nf->echo == NF_ECHO_NONE);
	u32 window, to;

	if (!nf->open)
		return sock_reno_ssthresh(tp);
	nf->delivered = tp->delivered;
	if (!loss && nf->echo == NF_ECHO_ANSWERED)
		return tp->snd_cwnd ?: 1;
	if (!loss && nf->echo == NF_ECHO_CHIRP && !nf_small(nf)) {
		if (nf->loan.to == LOAN_CHIRP) /* the next one has begun */
			probe_discard(sk, CCBPF_CHIRP_MARK);
		return pardon_begin(sk, nf);
	}
	window = nf_small(nf) ? NF_LEAST : loan_window(tp, &nf->loan);
	if (loss)
		window = pardon_lost(sk, nf) ?: window;
	to = nf_reduce(sk, window, loss);
	nf_fill(sk);
	if (loss || !nf_small(nf))
		flow_repairs(sk, to);
	return to;
}

SEC("struct_ops")
void BPF_PROG(nf_tcp_set_state, struct sock *sk, __u8 state)
{
	pardon_broken(sk, nf_of(sk), state);
}

/* Nothing was in flight and the first packets leave. */
static __always_inline void nf_transmit_start(struct sock *sk, struct nf *nf)
{
	if (flow_idle(tcp_of(sk), nf->published_kius))
		probe_void(sk, ~0u);
	if (law_unlikely(nf_small(nf)))
		small_depart(sk, nf_gap_us(sk, nf));
}

/* In place of cwnd_event(), where the kernel does not report it there
 * (kern/compat.bpf.h, 3.) */
SEC("?struct_ops")
void BPF_PROG(nf_tcp_tx_start, struct sock *sk)
{
	nf_transmit_start(sk, nf_of(sk));
}

SEC("struct_ops")
void BPF_PROG(nf_tcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct nf *nf = nf_of(sk);

	if (event == CA_EVENT_TX_START)
		nf_transmit_start(sk, nf);
	if (event == CA_EVENT_CWND_RESTART) /* nor after an idle time */
		nf->loan.window = law_min(nf->loan.window, NF_RESTART);
	if (event == CA_EVENT_COMPLETE_CWR)
		pardon_end(sk, nf);
}

/* The kernel found a reduction to be needless. What a loss took comes back; a mark's
 * cut since then (loss_cwnd = 0) stays, and so must ssthresh, which the kernel
 * restores after this call: the next ACK lowers it again. The same where the first slow
 * start comes back a second time, as in the TCP-LP family (lp_undo()). */
SEC("struct_ops")
__u32 BPF_PROG(nf_tcp_undo_cwnd, struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	bool unbounds = sock_undo_unbounds(tcp_of(sk));
	u32 now = tcp_of(sk)->snd_cwnd, cwnd = law_max(now, nf->loss_cwnd);
	struct flow_event e = nf_now(nf);

	nf->undone = !nf->loss_cwnd || (unbounds && nf->resumed);
	nf->resumed |= unbounds;
	if (nf->bare)
		nf->bare--; /* that loss was none */
	flow_undone(sk, &e, cwnd - now);
	return cwnd ?: 1;
}

static __always_inline void nf_begin(struct tcp_sock *tp, struct nf *nf)
{
	__builtin_memset(nf, 0, sizeof(*nf));
	gentle_open(tp, &nf->gentle, param_gentle_start());
	aged_reset(&nf->rtt, AGED_NO_MIN);
	nf->chirp.begin = tp->snd_nxt;
	nf->chirp.end = tp->snd_nxt;
	nf->turned_kius = tp->tcp_mstamp >> KIUS_SHIFT;
	nf->clean_until = tp->snd_nxt;
	nf->share_q8 = NF_SHARE_ONE;
	nf->delivered = tp->delivered;
	nf->avoiding = tp->snd_ssthresh < TCP_INFINITE_SSTHRESH;
	nf->open = 1;
	nf->waits = sock_ecn(tp) ? CCBPF_CHIRP_WAIT_NONE : CCBPF_CHIRP_WAIT_ECN;
}

SEC("struct_ops")
void BPF_PROG(nf_tcp_init, struct sock *sk)
{
	static const char name[CCBPF_NAME_LEN] = "nf_tcp";
	struct tcp_sock *tp = tcp_of(sk);
	struct nf *nf = nf_of(sk);

	nf_begin(tp, nf);
	nf->dscp = dscp_begin(sk, param_dscp());
	flow_open(sk, name);
	nf_event(sk, nf, CCBPF_EVENT_OPENED, sock_ecn(tp), sock_timestamps(tp));
	nf_fill(sk);
	if (sock_ecn(tp))
		return;
	flow_count(fallbacks);
	nf_event(sk, nf, CCBPF_EVENT_FALLBACK, CCBPF_SIGNAL_ECN, CCBPF_SIGNAL_RTT);
}

SEC("struct_ops")
void BPF_PROG(nf_tcp_release, struct sock *sk)
{
	struct ccbpf_flow *f = flow_of(sk);
	struct nf *nf = nf_of(sk);

	if (!nf->open)
		return; /* before Linux 6.14 also without init() */
	nf->open = 0;
	if (nf_small(nf))
		nf_small_return(sk, nf);
	loan_return(sk, &nf->loan);
	nf_event(sk, nf, CCBPF_EVENT_CLOSED, f ? f->indications : 0, f ? f->losses : 0);
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
