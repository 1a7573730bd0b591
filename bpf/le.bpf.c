// SPDX-License-Identifier: GPL-2.0-only
/*
 * le, "Lower Effort": a background flow that drains its own part of a queue, and then judges
 * whether the queue was its own.
 *
 * There is no paper. From TCP-LP (tcp_lp.bpf.c) it has the judgement after a first indication
 * and the pairs of packets, from TCPW-LP (tcpw_lp.bpf.c) the drain by w base / (base + q), from
 * RFC 8622 its name. law/le.h has the equations; the names of constants are those of its macros.
 *
 *	measure	 q    smallest queueing delay of a block of packets      (law/delay.h)
 *	decide	 q > T
 *	act
 *	            q > T: w = w base / (base + q)        an RTT later
 *	  FREE ---------------------------------> CUT -----------------> JUDGE
 *	   ^ ^                                                            | |
 *	   | |                  q <= T: the queue was its own             | |
 *	   | +------------------------------------------------------------+ |
 *	   |                                                                | q > T in two
 *	   |  slow start to `back`,                                         | blocks, or 2 q
 *	   |  half as fast               pairs find no queue                v of the cut
 *	   +------------------------------------------------------------- SMALL:
 *	                                            a pair of packets each 1 to gap_max RTT
 *
 * The first indication of all leads from FREE to SMALL, if the window has not reached LE_ALONE.
 *
 * Each part has its reason, and in brackets what another value did in the simulator.
 *
 *  1. The smallest delay of a block must be a queue: jitter, late ACKs and the flow's own bursts
 *     never are the smallest. A block is a quarter of a window, at least 6 packets and 3 ACKs;
 *     of 8 ACKs where the noise is above 5/8 of `threshold`. (With 3 ACKs and 4 ms of jitter the
 *     flow had 8 % of the link; with 12 ACKs 24 of a kind share by Jain .77. From 3/4 of `threshold`
 *     on: .65 of 10 Mbit/s, 20 ms, 2 ms of jitter, now .90. From 3/8 on ten share by Jain .97.)
 *  2. T = 4 ms: with 3 ms ten of a kind use less of the link, with more foregrounds lose. Not less
 *     than 3/2 of the path's noise, as jitter delays by as much (20 Mbit/s, 30 ms, 4 ms of jitter
 *     in order: with 1 x .32 of the link, with 3/2 .95; pairs: 1 x), nor than 1.5 packets' time.
 *     Noise is how far the delay falls in a round trip (law/falls.h; with law/noise.h .74 there).
 *     The time of a packet is learned from windows of 6 on. Where losses came with the largest queue
 *     ever seen the buffer is small: T is half of that queue, at least threshold_min = 0.5 ms, and
 *     the noise at most a quarter of it. (With 1 ms cubic kept .51 of a gigabit with 1 ms of buffer,
 *     now .99.)
 *  3. The cut takes the flow's own part of the queue and nothing else: alone that empties the
 *     queue and the link stays full (98 %, where TCP-LP's half leaves 82 %). The window is the
 *     one that had sent the packets which were measured. If noise raised T, a flow that had LE_ALONE
 *     packets keeps what noise explains (50 Mbit/s, 20 ms, 4 ms of jitter: .75 of the link, not .46).
 *     Where the base RTT is below 2 T an idle link costs as much as a queue: the cut leaves half of
 *     `threshold`, at most T, while the base RTT was seen in this half of its memory (5 ms: 96 %, not
 *     87), and growth begins with a packet per RTT. (On 2 ms of buffer cubic kept .61, now .82.)
 *  4. The judgement is by what remains after the cut, in two blocks: a crowd of one's own kind
 *     drains together, and one block in two may be late. A queue that has doubled is judged at
 *     once. The first indication of all, by delay or by loss, is judged by pairs at once
 *     (LE_ALONE): a flow that starts behind others has never seen an empty queue, and a drain
 *     against a base RTT that is too long takes nothing (ten that start with cubic left it 90 %
 *     of 30 s, now 96). A start that had 24 packets by then was alone and drains (pairs there
 *     too: 80 % of the first 5 s alone, instead of 90; from 16 packets on, ten left reno 95.0 %
 *     instead of 95.5).
 *  5. While others keep a queue: pairs, each gap twice the last, up to gap_max = 16 RTT
 *     (TCP-LP's 8 / w) or, for fast flows, gap_share / back, because their pairs are nothing
 *     beside the link; at least 3 RTT. So a gigabit is found free again soon. After a judgement
 *     the first pair does not count, because its ACK may be of the old window; the second one
 *     leaves 8 RTT later. Cubic's slow start often ends below the link's
 *     rate, without a queue: a flow that came back then yielded in 1.0 s instead of 0.3 (with 4
 *     RTT reno keeps .90 instead of .93 on a quarter BDP; with 16, ten of a kind use .94 of
 *     their link instead of .97). Flows of a few packets look again after 1 RTT, as 24 of a
 *     kind shared by Jain .90 with 4. After the first indication of all the gap is of 4 RTT and
 *     the old window counts: a flow alone is back within about 10 RTT.
 *  6. After a gap of 3 RTT or more one empty pair is not enough, as the foreground may have
 *     halved: a second pair must find no queue either. It leaves when the old gap is over; the gap
 *     behind it is 1 RTT. If it finds a queue, the gap doubles as always (with gaps from 1 RTT on
 *     again reno keeps .986 instead of .991 on half a BDP). (Asking for six empty pairs where the
 *     queue had doubled: ten of a kind share by Jain .65.)
 *  7. The return is a slow start, half as fast, to where the cut began. `back` loses an eighth
 *     of the difference by each judgement that the queue was one's own. Where the buffer is
 *     below 4 `threshold` there is no slow start, as it costs the others a loss (6 ms at 50 ms:
 *     cubic keeps .92 instead of .74), and below 2 `threshold` a queue within three rounds of a
 *     cut or a return, while the window grew by less than a packet, means others at once (8
 *     packets of buffer, 10 ms: reno keeps .82 instead of .75), and so does a buffer that is
 *     full although the flow drained its part at half of it: their loss looks like the drain's
 *     effect (one of 16 draws there left reno .35; now the worst is .76).
 *  8. Growth: 1/8, 1/4, 1/2, then one packet per RTT, and where no queue (T / 4) was seen for
 *     quiet_rounds = 8, twice as much in each further round up to a sixteenth of the window: long
 *     fat paths. (Below 16 packets this is less than one; with one reno keeps .84 at a buffer of 3
 *     packets, now .86.) After a loss on a path that has never carried a queue of T, half a packet,
 *     until the window is 5/4 of the one at which that loss came: a policer would have lost there
 *     again. (Without that end: 20 Mbit/s, 40 ms, 0.1 % loss, alone: .40 of the link in the worst
 *     of 16 draws, now .96. From the window of the loss on, reno keeps .93 at a policer of 50
 *     Mbit/s, now .97.) Only the peer's clock tells in which direction a queue is, and a peer may
 *     lie: while the round trip is 2 T above its base this growth is no faster than that (with T ten of
 *     a kind use .957 of their link, now .973), and from T on a loss takes half for good (else reno
 *     keeps .27 beside a receiver that hides the queue, now .49).
 *  9. The first slow start begins with 4 packets and is half as fast (law/gentle_start.h); it
 *     ends with the first block above T.
 * 10. Loss: half, and what a drain would leave if that is less. One or two packets lost without a
 *     queue in either direction, on a path that has carried a queue of T without a loss, are
 *     chance and take only the drain; a second loss within two rounds is not. A policer and a
 *     buffer of a few packets never carried such a queue; the block that the loss ended counts as
 *     well. The first loss of the start, with no queue, is chance, too. (100 Mbit/s, 100 ms, .01 %
 *     loss: in the second to fifth minute 5 % of the draws had .13 of the link or less, now .95.)
 *     The losses of a burst are found one by one, so the first of them looks like a lone one: if
 *     the repair sends more than two packets again, the window is halved at its end. (Without this
 *     a start into a policer sent twice as many packets again.) After a chance loss far below the
 *     largest queue the buffer is not taken for small any more: an earlier loss in that queue was
 *     chance, too. (10 Mbit/s, 50 ms, .1 %: 5 % of the draws had .69 or less, now .89.) Where no
 *     queue was larger than the flow's own, just above T, one loss in it may be chance, and two in a
 *     row are not. (12 hours of .1 %: one of 8 draws had .87 of the link, now .96.) After a loss's
 *     cut that was judged needless the window returns to 7/8. A timeout is never chance.
 *     After it the window grows before the cut is judged: in the kernel's state Loss nothing else
 *     ends the repair. A path that stands still delays all that is on it: no proof that its buffer
 *     holds a queue (law/silence.h; after a stall of 200 ms the losses in a buffer of 20 packets
 *     passed for chance, and reno kept .14 of what it has beside reno, now 1.3).
 * 11. Mark (ECN): an indication that is certain. It takes the drain, at least an eighth and a
 *     packet; in JUDGE it means others; in CUT it is of the queue before; of a pair it doubles the
 *     gap (behind fq_codel and nf_red all pairs were marked: cubic kept .950, now .988). If packets
 *     are lost before that reduction is over the kernel asks for no second one: half of the window
 *     before the mark is left. A mark below `threshold` takes half: a router that marks there keeps the
 *     queue there. In a small buffer T comes down. Growth is never faster than a packet per RTT then.
 *     (100 Mbit/s, 20 ms, RED from 1.2 to 3.6 ms: reno kept .54 of what it has beside reno, now 1.0.)
 * 12. A delay that stands still while only pairs are sent, for rebase_pairs times 0.8 s (at most
 *     255 pairs), is a longer path (law/flat.h): the plateau of cubic is shorter. In FREE the flow
 *     itself moves it. Its buffer is not known, so no loss is chance until a queue of T has passed.
 * 13. The window only grows while it is what limits the flow (the case of RFC 7661), and after a
 *     rest by a packet per RTT at first, above ssthresh. Every cut lowers ssthresh. Undo returns
 *     what a loss took, never what a cut took, and forgets what that loss said of the buffer. (Else
 *     a late packet in the start left 2 Mbit/s, now 190: 200 Mbit/s, 100 ms, 2 ms of jitter.)
 * 14. The kernel paces the flow from a base RTT of 2 ms on (kern/pace.bpf.h).
 *
 * Where a queue above T is seen it is not more aggressive than reno: it grows by a packet per RTT
 * there at the most, and reduces before the buffer is full; a chance loss (10.) and a mark above
 * `threshold` (11.) leave more than a half. Where jitter hides a small buffer's queue it takes as much as reno does.
 */
#include "kern/le_reduce.bpf.h"

char _license[] SEC("license") = "GPL";

CCBPF_IDENTITY(le);

struct le_params params SEC(".data.params") = { LE_PARAMS(PARAM_DEFAULT) };

/* --- act --------------------------------------------------------------- */

/* Make this the window, fraction and all. */
static __always_inline void le_set_window(struct tcp_sock *tp, struct le_flow *f, u32 window_q8)
{
	u32 window = window_q8 >> LE_Q8_SHIFT, part = window_q8 & (LE_ONE - 1);

	sock_cut_cwnd(tp, window);
	tp->snd_cwnd_cnt = (u64)le_every(&f->law, window, false) * part >> LE_Q8_SHIFT;
}

/* The first indication: the flow's own part of the queue goes. */
static __noinline int le_drain(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	struct ccbpf_flow *r = flow_of(sk);
	u32 to_q8, spared_us;
	struct le_path p;

	le_path(f, &p);
	if (tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH)
		le_event(sk, f, CCBPF_EVENT_SLOW_START_END, sock_rtt_us(tp), p.base_us);
	spared_us = le_spared(&f->law, &p);
	to_q8 = le_drained(&f->law, le_window_q8(tp, f), le_us(f->law.q), spared_us, &p);
	le_cut(&f->law, to_q8, &p);
	le_set_window(tp, f, to_q8);
	le_begin_round(tp, f);
	flow_count(indications);
	totals_indication(sk, false);
	if (r)
		r->indications++;
	le_event(sk, f, CCBPF_EVENT_INDICATION, le_us(f->law.q), le_threshold(&f->law, &p));
	return 0;
}

/* After a loss's cut the queue fell: the loss took more than the flow's own part. ssthresh rises to
 * 7/8 of `back`, and slow start brings the window there. */
static __noinline int le_resume(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	u32 back = (f->law.back_q8 - f->law.back_q8 / LE_FELL) >> LE_Q8_SHIFT;

	if (f->law.of_loss && tp->snd_cwnd < back)
		tp->snd_ssthresh = back;
	le_event(sk, f, CCBPF_EVENT_INFERENCE_END, 0, 0);
	return 0;
}

/* Judged: others keep the queue. Only pairs from now on. */
static __noinline int le_yield(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	struct ccbpf_flow *r = flow_of(sk);
	struct le_path p;

	le_path(f, &p);
	f->law.paced |= pace_on(sk);
	f->noise.flat = 0;
	sock_cut_cwnd(tp, SMALL_PAIR);
	flow_count(indications);
	flow_count(cuts_to_one);
	totals_indication(sk, true);
	if (r) {
		r->indications++;
		r->cuts_to_one++;
	}
	le_event(sk, f, CCBPF_EVENT_CUT_TO_ONE, le_us(f->law.q), le_threshold(&f->law, &p));
	return 0;
}

/* Pairs found no queue: slow start from 4 packets to `back`. */
static __noinline int le_return(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);
	struct le_path p;

	le_path(f, &p);
	tp->snd_cwnd = LE_RETURN;
	tp->snd_cwnd_cnt = 0;
	tp->snd_ssthresh = le_return_to(&f->law, &p);
	f->law.then_q8 = 0;
	f->law.growth = 0;
	le_begin_round(tp, f);
	le_event(sk, f, CCBPF_EVENT_SMALL_LEAVE, tp->snd_ssthresh, 0);
	return 0;
}

/* After a timeout only the growth of the window ends the repair; in state Loss no cut is judged. */
static __always_inline bool le_repairs(struct sock *sk)
{
	return sock_ca_state(sk) == TCP_CA_Loss || sock_in_slow_start(tcp_of(sk));
}

static __always_inline void le_grow(struct sock *sk, struct le_flow *f, u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);
	bool starting = sock_in_slow_start(tp);
	bool grows = f->law.stage == LE_FREE || (!le_small(f) && le_repairs(sk));

	if (starting)
		acked = law_min(acked, LE_START * (tp->snd_ssthresh - tp->snd_cwnd));
	if (grows && sock_cwnd_limited(tp))
		tcp_cong_avoid_ai(tp, le_every(&f->law, tp->snd_cwnd, starting), acked);
}

static __always_inline void le_act(struct sock *sk, struct le_flow *f, enum le_verdict verdict,
				   u32 acked)
{
	struct tcp_sock *tp = tcp_of(sk);

	if (law_unlikely(f->law.undone)) { /* see undo_cwnd() */
		f->law.undone = 0;
		sock_cut_cwnd(tp, tp->snd_cwnd);
	}
	if (law_unlikely(verdict == LE_DRAIN))
		le_drain(sk);
	else if (law_unlikely(verdict == LE_GROW))
		le_resume(sk);
	else if (law_unlikely(verdict == LE_YIELD))
		le_yield(sk);
	else if (law_unlikely(verdict == LE_BACK))
		le_return(sk);
	else
		le_grow(sk, f, acked);
	if (law_unlikely(le_small(f)))
		small_keep(sk);
	if (sock_ca_state(sk) != TCP_CA_Open)
		return;
	f->law.paced = pace_keep(sk, f->law.paced,
				 le_small(f) || delay_base_us(&f->delay) >= param_pace_rtt());
}

/* --- the story ----------------------------------------------------------- */

SEC("struct_ops")
void BPF_PROG(le_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct le_flow *f = le_of(sk);
	enum le_verdict verdict = LE_GO_ON;
	struct le_path p;

	if (law_forget(le_measure(sk, f, acked))) {
		le_path(f, &p);
		verdict = law_forget(le_decide(&f->law, le_window_q8(tcp_of(sk), f), &p));
	}
	le_act(sk, f, verdict, acked);
	le_publish(sk, f);
}

/* --- loss, mark and undo ------------------------------------------------- */

SEC("struct_ops")
__u32 BPF_PROG(le_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);

	if (!f->law.open)
		return sock_reno_ssthresh(tp);
	if (law_forget(le_is_for_loss(tp)))
		return le_lose(sk, tp->snd_cwnd, law_forget(tp->lost_out <= LE_LEAST));
	return le_be_marked(sk);
}

SEC("struct_ops")
void BPF_PROG(le_set_state, struct sock *sk, __u8 state)
{
	if (law_unlikely(le_is_loss(sk, state)))
		le_lose_after_all(sk);
	le_repair_pairs(sk, state);
	if (sock_ca_state(sk) > TCP_CA_Disorder && state <= TCP_CA_Disorder)
		le_block(&le_of(sk)->law); /* it held a count: le_seems_alone() */
}

/* The kernel found a reduction to be needless. What a loss took comes back; an early cut since then
 * stays. The kernel restores ssthresh after this call, and the next ACK lowers it again. */
SEC("struct_ops")
__u32 BPF_PROG(le_undo_cwnd, struct sock *sk)
{
	struct le_flow *f = le_of(sk);
	struct tcp_sock *tp = tcp_of(sk);
	u32 now = tp->snd_cwnd, cwnd = now;
	struct flow_event e;

	f->law.undone = !f->law.of_loss;
	if (!f->law.undone) {
		cwnd = law_max(now, tp->prior_cwnd);
		le_needless(&f->law);
	}
	e = le_now(sk, f);
	flow_undone(sk, &e, cwnd - now);
	return cwnd ?: 1;
}

/* Nothing was in flight and the first packets leave. */
static __always_inline void le_transmit_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);

	if (sock_ca_state(sk) <= TCP_CA_Disorder && flow_idle(tp, f->published_kius)) {
		le_rested(&f->law);
		f->law.rounds = 0; /* no delay is known: no loss is chance */
		le_begin_round(tp, f);
	}
	if (le_small(f))
		small_depart(sk, le_gap_us(tp, f));
}

COMPAT_TX_START(le, le_transmit_start)

SEC("struct_ops")
void BPF_PROG(le_init, struct sock *sk)
{
	static const char name[CCBPF_NAME_LEN] = "le";
	struct tcp_sock *tp = tcp_of(sk);
	struct le_flow *f = le_of(sk);

	delay_init(&f->delay);
	falls_init(&f->noise, tp->snd_nxt);
	spacing_init(&f->spacing, tp->tcp_mstamp);
	silence_init(&f->silence);
	le_begin(&f->law);
	f->law.paced = f->law.undone = 0;
	f->law.open = 1;
	f->published_kius = 0;
	gentle_begin(tp);
	flow_open(sk, name);
	le_event(sk, f, CCBPF_EVENT_OPENED, sock_ecn(tp), sock_timestamps(tp));
}

SEC("struct_ops")
void BPF_PROG(le_release, struct sock *sk)
{
	struct le_flow *f = le_of(sk);
	struct ccbpf_flow *r = flow_of(sk);

	if (!f->law.open)
		return; /* older kernels call it also where init() has not run */
	f->law.open = 0;
	le_event(sk, f, CCBPF_EVENT_CLOSED, r ? r->indications : 0, r ? r->losses : 0);
	if (f->law.paced)
		pace_off(sk);
	le_hand_over(sk, f);
	flow_close(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops le = {
	.cong_avoid = (void *)le_cong_avoid,
	.ssthresh = (void *)le_ssthresh,
	.set_state = (void *)le_set_state,
	.undo_cwnd = (void *)le_undo_cwnd,
	.cwnd_event = (void *)le_cwnd_event,
	.init = (void *)le_init,
	.release = (void *)le_release,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "le",
};
