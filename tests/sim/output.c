// SPDX-License-Identifier: GPL-2.0-only
/* What is sent and when: net/ipv4/tcp_output.c. See flow.h. */
#include <stdio.h>
#include <stdlib.h>

#include "flow.h"

#define GSO_MAX_BYTES 65536
#define GSO_MAX_SEGS 44
#define TSO_RTT_SHIFT 9 /* sysctl_tcp_tso_rtt_log */
#define MIN_TSO_SEGS 2 /* sysctl_tcp_min_tso_segs */
#define UNPACED_SEGMENTS 10 /* tcp_update_skb_after_send() paces from then on */
#define WINDOW_DIVISOR 3 /* sysctl_tcp_tso_win_divisor */

/* --- the list by time of sending ---------------------------------------- */

void segment_unlist(struct flow *f, u32 index)
{
	struct segment *s = segment_of(f, index);

	if (!(s->flags & SEG_LISTED))
		return;
	s->flags &= (u8)~SEG_LISTED;
	if (s->older == FLOW_UNLIMITED)
		f->oldest = s->newer;
	else
		segment_of(f, s->older)->newer = s->newer;
	if (s->newer == FLOW_UNLIMITED)
		f->newest = s->older;
	else
		segment_of(f, s->newer)->older = s->older;
}

static void list_append(struct flow *f, u32 index)
{
	struct segment *s = segment_of(f, index);

	segment_unlist(f, index);
	s->flags |= SEG_LISTED;
	s->older = f->newest;
	s->newer = FLOW_UNLIMITED;
	if (f->newest == FLOW_UNLIMITED)
		f->oldest = index;
	else
		segment_of(f, f->newest)->newer = index;
	f->newest = index;
}

static void ring_grow(struct flow *f)
{
	u32 size = 2 * f->ring_size;
	struct segment *ring = calloc(size, sizeof(*ring));

	if (!ring) {
		fprintf(stderr, "simulator: out of memory for the window of flow %s\n", f->name);
		exit(2);
	}
	for (u32 i = f->una; i != f->nxt; i++)
		ring[i & (size - 1)] = *segment_of(f, i);
	free(f->ring);
	f->ring = ring;
	f->ring_size = size;
}

/* --- one packet --------------------------------------------------------- */

static void packet_out(struct flow *f, u32 index, bool again)
{
	struct packet *p = packet_new();
	struct tcp_sock *tp = &f->tp;

	p->arrive = receiver_arrive;
	p->owner = f;
	p->delay_ns = f->base_delay_ns ? *f->base_delay_ns : f->delay_ns;
	p->last_arrival_ns = &f->last_arrival_ns;
	p->bytes = tp->mss_cache + FLOW_HEADERS;
	p->index = index;
	p->tsval = flow_stamp(f, tp->tcp_wstamp_ns);
	p->tsecr = tp->rx_opt.rcv_tsval;
	p->data = true;
	p->dscp = f->dscp;
	p->low = f->background;
	p->ect = f->ecn && !again; /* RFC 3168, 6.1.5 */
	if (p->ect && tp->ecn_flags & 2) { /* TCP_ECN_QUEUE_CWR */
		tp->ecn_flags &= (u8)~2;
		p->cwr = true;
	}
	if (fq_paces(f))
		fq_send(f, p);
	else
		way_send(f->forward, p);
}

/* tcp_update_skb_after_send(): when the next one may leave */
static void departure_set(struct flow *f, u32 segments, u64 was_ns)
{
	struct sock *sk = sock_of(f);
	struct tcp_sock *tp = &f->tp;
	u64 length_ns, credit_ns;

	if (sk->sk_pacing_status == 0 || sk->sk_pacing_rate == PACING_UNLIMITED ||
	    !sk->sk_pacing_rate || tp->data_segs_out < UNPACED_SEGMENTS)
		return;
	length_ns = (u64)segments * tp->mss_cache * NS_PER_S / sk->sk_pacing_rate;
	credit_ns = tp->tcp_wstamp_ns - was_ns;
	length_ns -= credit_ns < length_ns / 2 ? credit_ns : length_ns / 2;
	tp->tcp_wstamp_ns += length_ns;
}

/* So many segments from this one on leave as one skb. */
static void transmit(struct flow *f, u32 index, u32 segments, bool again)
{
	struct tcp_sock *tp = &f->tp;
	u64 was_ns = tp->tcp_wstamp_ns;

	if (tp->tcp_wstamp_ns < tp->tcp_clock_cache)
		tp->tcp_wstamp_ns = tp->tcp_clock_cache;
	if (!in_flight(f))
		flow_ca_event(f, CA_EVENT_TX_START);
	f->last_sent_ns = engine_now_ns;
	for (u32 i = 0; i < segments; i++) {
		segment_of(f, index + i)->sent_ns = tp->tcp_wstamp_ns;
		list_append(f, index + i);
		packet_out(f, index + i, again);
	}
	tp->data_segs_out += segments;
	departure_set(f, segments, was_ns);
}

/* tcp_pacing_check() */
static bool pacing_waits(struct flow *f)
{
	if (fq_paces(f))
		return fq_is_full(f);
	if (sock_of(f)->sk_pacing_status == 0 || f->tp.tcp_wstamp_ns <= f->tp.tcp_clock_cache)
		return false;
	if (!f->pace.at_ns)
		timer_set(&f->pace, f->tp.tcp_wstamp_ns);
	return true;
}

/* segments of one skb, tcp_tso_autosize(); the controller is asked once for each attempt to send */
static u32 tso_segments(struct flow *f)
{
	u32 least = f->ca->min_tso_segs ? f->ca->min_tso_segs(sock_of(f)) : MIN_TSO_SEGS;
	u64 bytes = sock_of(f)->sk_pacing_rate >> PACING_SHIFT;
	u32 shift = flow_min_rtt_us(f) >> TSO_RTT_SHIFT, segments;

	if (shift < 32)
		bytes += GSO_MAX_BYTES >> shift;
	if (bytes > GSO_MAX_BYTES)
		bytes = GSO_MAX_BYTES;
	segments = (u32)(bytes / f->tp.mss_cache);
	segments = segments > least ? segments : least;
	return segments < GSO_MAX_SEGS ? segments : GSO_MAX_SEGS;
}

/* --- new data ----------------------------------------------------------- */

static u32 waiting(const struct flow *f)
{
	return f->queued == FLOW_UNLIMITED ? FLOW_UNLIMITED : f->queued - f->nxt;
}

static u32 window_left(const struct flow *f)
{
	u32 out = f->nxt - f->una;

	return f->window > out ? f->window - out : 0;
}

/* tcp_cwnd_test(): at most half of the window at once */
static u32 cwnd_quota(const struct flow *f)
{
	u32 flying = in_flight(f), half = f->tp.snd_cwnd / 2 ?: 1;

	if (flying >= f->tp.snd_cwnd)
		return 0;
	return f->tp.snd_cwnd - flying < half ? f->tp.snd_cwnd - flying : half;
}

/* tcp_tso_should_defer(): more may be sent as one skb with the next ACK */
static bool tso_defers(struct flow *f, u32 segments, u32 most)
{
	u32 room = window_left(f), cwnd_room = f->tp.snd_cwnd - in_flight(f), chunk;
	struct tcp_sock *tp = &f->tp;

	if (segments <= 1 || icsk_of(f)->icsk_ca_state >= TCP_CA_Recovery ||
	    tp->tcp_clock_cache > tp->tcp_wstamp_ns + NS_PER_MS)
		return false;
	room = room < cwnd_room ? room : cwnd_room;
	chunk = (f->window < tp->snd_cwnd ? f->window : tp->snd_cwnd) / WINDOW_DIVISOR;
	if (room >= most || (waiting(f) > most && room >= most) || room >= chunk ||
	    f->una == f->nxt)
		return false;
	if (tp->tcp_clock_cache <
	    segment_of(f, f->una)->sent_ns + (u64)(tp->srtt_us >> 4) * NS_PER_US)
		return false;
	f->cwnd_limited_by_tso = cwnd_room < window_left(f);
	return true;
}

/* tcp_cwnd_application_limited() */
static void cwnd_application_limited(struct flow *f)
{
	struct tcp_sock *tp = &f->tp;
	u32 used = f->cwnd_used > TCP_INIT_CWND ? f->cwnd_used : TCP_INIT_CWND;

	if (icsk_of(f)->icsk_ca_state == TCP_CA_Open && used < tp->snd_cwnd) {
		tp->snd_ssthresh = flow_current_ssthresh(f);
		flow_set_cwnd(f, (tp->snd_cwnd + used) >> 1);
	}
	f->cwnd_used = 0;
	f->cwnd_stamp_ns = engine_now_ns;
}

static bool cwnd_limited(const struct flow *f)
{
	const struct tcp_sock *tp = &f->tp;

	if (tp->is_cwnd_limited)
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* tcp_cwnd_validate() */
static void cwnd_validate(struct flow *f, bool limited)
{
	struct tcp_sock *tp = &f->tp;

	if (!index_after(f->cwnd_usage_seq, f->una) || limited ||
	    (!tp->is_cwnd_limited && tp->packets_out > tp->max_packets_out)) {
		tp->is_cwnd_limited = limited;
		tp->max_packets_out = tp->packets_out;
		f->cwnd_usage_seq = f->nxt;
	}
	if (cwnd_limited(f)) {
		f->cwnd_used = 0;
		f->cwnd_stamp_ns = engine_now_ns;
		return;
	}
	if (tp->packets_out > f->cwnd_used)
		f->cwnd_used = tp->packets_out;
	if (engine_now_ns - f->cwnd_stamp_ns >= f->rto_us * NS_PER_US)
		cwnd_application_limited(f);
}

/* tcp_slow_start_after_idle_check(), tcp_cwnd_restart() */
void output_restart_after_idle(struct flow *f)
{
	struct tcp_sock *tp = &f->tp;
	u64 idle_us = (engine_now_ns - f->last_sent_ns) / NS_PER_US;
	u32 restart, cwnd;

	if (tp->packets_out || idle_us <= f->rto_us)
		return;
	flow_ca_event(f, CA_EVENT_CWND_RESTART);
	tp->snd_ssthresh = flow_current_ssthresh(f);
	cwnd = tp->snd_cwnd;
	restart = cwnd < TCP_INIT_CWND ? cwnd : TCP_INIT_CWND;
	for (; idle_us > f->rto_us && cwnd > restart; idle_us -= f->rto_us)
		cwnd >>= 1;
	flow_set_cwnd(f, cwnd > restart ? cwnd : restart);
	f->cwnd_used = 0;
}

/* tcp_event_new_data_sent() */
static void new_data_sent(struct flow *f, u32 segments)
{
	bool first = !f->tp.packets_out;

	f->nxt += segments;
	f->tp.packets_out += segments;
	flow_publish_seqs(f);
	if (first || f->pending == XMIT_PROBE)
		xmit_timer_rearm(f);
}

/* tcp_write_xmit(); @probe: one skb, whatever the window. Returns segments. */
static u32 write_xmit(struct flow *f, bool probe)
{
	u32 most, sent = 0, quota, n;
	bool limited;

	flow_refresh_clock(f);
	output_restart_after_idle(f);
	most = tso_segments(f);
	f->cwnd_limited_by_tso = false;
	while (waiting(f)) {
		if (pacing_waits(f))
			break;
		quota = cwnd_quota(f);
		if (!quota && !probe)
			break;
		n = quota ?: 1;
		n = n < most ? n : most;
		n = n < waiting(f) ? n : waiting(f);
		if (!window_left(f))
			break;
		n = n < window_left(f) ? n : window_left(f);
		if (!probe && most > 1 && tso_defers(f, n, most))
			break;
		while (f->nxt + n - f->una >= f->ring_size)
			ring_grow(f);
		for (u32 i = 0; i < n; i++)
			segment_of(f, f->nxt + i)->flags = 0;
		transmit(f, f->nxt, n, false);
		new_data_sent(f, n);
		sent += n;
		if (probe)
			break;
	}
	limited = f->cwnd_limited_by_tso || in_flight(f) >= f->tp.snd_cwnd;
	if (sent || limited)
		cwnd_validate(f, limited);
	if (sent && in_cwnd_reduction(f))
		f->prr_out += sent;
	return sent;
}

void output_push(struct flow *f)
{
	if (f->running && write_xmit(f, false))
		output_schedule_probe(f, false);
}

/* tcp_update_pacing_rate() */
void output_pacing_rate(struct flow *f)
{
	struct sock *sk = sock_of(f);
	struct tcp_sock *tp = &f->tp;
	u64 rate = (u64)tp->mss_cache * (1000000 / 100 << 3);

	rate *= tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	rate *= tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd : tp->packets_out;
	if (tp->srtt_us)
		rate /= tp->srtt_us;
	sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

/* --- again -------------------------------------------------------------- */

/* __tcp_retransmit_skb() */
static void retransmit_segments(struct flow *f, u32 index, u32 segments)
{
	transmit(f, index, segments, true);
	f->tp.total_retrans += segments;
	for (u32 i = 0; i < segments; i++)
		segment_of(f, index + i)->flags |= SEG_EVER_RETRANS;
}

/* tcp_retransmit_skb(): one that is marked lost */
void output_retransmit_one(struct flow *f, u32 index)
{
	retransmit_segments(f, index, 1);
	segment_of(f, index)->flags |= SEG_RETRANS;
	f->tp.retrans_out++;
	if (!f->retrans_stamp)
		f->retrans_stamp = flow_stamp(f, segment_of(f, index)->sent_ns);
	if (f->undo_retrans < 0)
		f->undo_retrans = 0;
	f->undo_retrans++;
}

/* tcp_xmit_retransmit_queue() */
void output_retransmit(struct flow *f)
{
	struct tcp_sock *tp = &f->tp;
	bool rearm = false;

	if (!tp->packets_out)
		return;
	flow_refresh_clock(f);
	tso_segments(f);
	if (index_after(f->una, f->retransmit_hint))
		f->retransmit_hint = f->una;
	for (u32 i = f->retransmit_hint; i != f->nxt; i++) {
		u8 flags = segment_of(f, i)->flags;

		if (pacing_waits(f) || in_flight(f) >= tp->snd_cwnd ||
		    tp->retrans_out >= tp->lost_out)
			break;
		if (!(flags & SEG_LOST) || flags & (SEG_SACKED | SEG_RETRANS)) {
			if (i == f->retransmit_hint)
				f->retransmit_hint++;
			continue;
		}
		output_retransmit_one(f, i);
		if (in_cwnd_reduction(f))
			f->prr_out++;
		if (i == f->una && f->pending != XMIT_REORDER)
			rearm = true;
	}
	if (rearm)
		xmit_timer_set(f, XMIT_RETRANS, f->rto_us, true);
}

/* tcp_tsq_write(), from the pacing timer */
void output_resume(void *flow)
{
	struct flow *f = flow;

	flow_refresh_clock(f);
	if (f->tp.lost_out > f->tp.retrans_out && f->tp.snd_cwnd > in_flight(f))
		output_retransmit(f);
	output_push(f);
}

/* --- a lost tail -------------------------------------------------------- */

/* tcp_schedule_loss_probe() */
bool output_schedule_probe(struct flow *f, bool advancing)
{
	struct tcp_sock *tp = &f->tp;
	u8 state = icsk_of(f)->icsk_ca_state;
	u64 timeout_us = TCP_RTO_INIT_US, rto_us = f->rto_us, since_us;

	if (!tp->packets_out || (state != TCP_CA_Open && state != TCP_CA_CWR))
		return false;
	if (tp->srtt_us)
		timeout_us = (tp->srtt_us >> 2) +
			     (tp->packets_out == 1 ? TCP_RTO_MIN_US : TCP_TIMEOUT_MIN_US);
	if (!advancing) {
		since_us = (engine_now_ns - segment_of(f, f->una)->sent_ns) / NS_PER_US;
		rto_us = segment_of(f, f->una)->sent_ns > engine_now_ns ? rto_us
			 : rto_us > since_us				? rto_us - since_us
									: 0;
	}
	if (rto_us && rto_us < timeout_us)
		timeout_us = rto_us;
	xmit_timer_set(f, XMIT_PROBE, timeout_us, true);
	return true;
}

/* tcp_send_loss_probe() */
void output_send_probe(struct flow *f)
{
	u32 last = f->nxt - 1;

	if (f->tlp_active) {
		xmit_timer_rearm(f);
		return;
	}
	f->tlp_retrans = false;
	if (waiting(f) && window_left(f)) {
		if (!write_xmit(f, true)) {
			xmit_timer_rearm(f);
			return;
		}
	} else {
		if (segment_of(f, last)->flags & SEG_SACKED) {
			xmit_timer_rearm(f);
			return;
		}
		retransmit_segments(f, last, 1);
		f->tlp_retrans = true;
	}
	f->tlp_active = true;
	f->tlp_high_seq = f->nxt;
	f->pending = XMIT_NONE;
	xmit_timer_rearm(f);
}
