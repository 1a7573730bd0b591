// SPDX-License-Identifier: GPL-2.0-only
/* The processing of an ACK: tcp_ack() of net/ipv4/tcp_input.c. See flow.h. */
#include <limits.h>
#include <string.h>

#include "flow.h"

#define SRTT_SHIFT 3
#define MIN_RTT_HALF_NS (150 * NS_PER_S) /* sysctl_tcp_min_rtt_wlen: 300 s, in two halves */
#define NO_RTT (-1)

/* What is gathered while one ACK is processed. */
struct ack_work {
	u32 flags;
	u32 reordered; /* the lowest segment that arrived late without having been sent again */
	u64 first_sacked_ns, last_sacked_ns; /* when they were sent; 0: none */
};

/* --- round trips -------------------------------------------------------- */

static void min_rtt_put(struct flow *f, u32 rtt_us)
{
	if (engine_now_ns - f->min_rtt_turned_ns >= MIN_RTT_HALF_NS) {
		f->min_rtt_turned_ns = engine_now_ns;
		f->min_rtt_before_us = f->min_rtt_us;
		f->min_rtt_us = ~0u;
	}
	if (rtt_us < f->min_rtt_us)
		f->min_rtt_us = rtt_us;
}

/* The mean deviation rises at once and falls once per round trip, tcp_rtt_estimator(). */
static void deviation_put(struct flow *f, u32 deviation_us)
{
	f->mdev_us = deviation_us;
	if (f->mdev_us > f->mdev_max_us) {
		f->mdev_max_us = f->mdev_us;
		if (f->mdev_max_us > f->rttvar_us)
			f->rttvar_us = f->mdev_max_us;
	}
	if (!index_after(f->una, f->rtt_seq))
		return;
	if (f->mdev_max_us < f->rttvar_us)
		f->rttvar_us -= (f->rttvar_us - f->mdev_max_us) >> 2;
	f->rtt_seq = f->nxt;
	f->mdev_max_us = TCP_RTO_MIN_US;
}

static void srtt_put(struct flow *f, s64 rtt_us)
{
	struct tcp_sock *tp = &f->tp;
	s64 m = rtt_us - (tp->srtt_us >> SRTT_SHIFT);
	s64 srtt_us = (s64)tp->srtt_us + m;

	tp->srtt_us = srtt_us > 1 ? (u32)srtt_us : 1;
	if (m < 0) {
		m = -m - (f->mdev_us >> 2);
		if (m > 0)
			m >>= 3; /* a fall counts less */
	} else {
		m -= f->mdev_us >> 2;
	}
	deviation_put(f, (u32)((s64)f->mdev_us + m));
	f->rto_us = (tp->srtt_us >> SRTT_SHIFT) + f->rttvar_us;
	f->rto_backoffs = 0;
}

/* tcp_count_delivered() */
static void count_delivered(struct flow *f, const struct ack_work *w)
{
	f->tp.delivered++;
	if (w->flags & ACK_ECE)
		f->tp.delivered_ce++;
}

/* --- SACK --------------------------------------------------------------- */

static void sack_segment(struct flow *f, u32 index, struct ack_work *w)
{
	struct segment *s = segment_of(f, index);
	struct tcp_sock *tp = &f->tp;

	if (s->flags & SEG_SACKED)
		return;
	rack_advance(f, index, s->flags, s->sent_ns);
	if (s->flags & SEG_RETRANS) {
		if (s->flags & SEG_LOST) {
			s->flags &= (u8) ~(SEG_LOST | SEG_RETRANS);
			tp->lost_out--;
			tp->retrans_out--;
		}
	} else {
		if (!(s->flags & SEG_EVER_RETRANS)) {
			if (tp->sacked_out && index_after(f->highest_sacked, index) &&
			    index_after(w->reordered, index))
				w->reordered = index;
			if (index_after(f->high_seq, index))
				w->flags |= ACK_ORIG_ACKED;
			if (!w->first_sacked_ns)
				w->first_sacked_ns = s->sent_ns;
			w->last_sacked_ns = s->sent_ns;
		}
		if (s->flags & SEG_LOST) {
			s->flags &= (u8)~SEG_LOST;
			tp->lost_out--;
		}
	}
	if (!tp->sacked_out || index_after(index, f->highest_sacked))
		f->highest_sacked = index;
	s->flags |= SEG_SACKED;
	segment_unlist(f, index);
	w->flags |= ACK_SACKED;
	tp->sacked_out++;
	count_delivered(f, w);
}

/* tcp_check_dsack(): the receiver had this segment already */
static void dsack_segment(struct flow *f, u32 index, u32 prior_una, struct ack_work *w)
{
	if (f->tlp_active && f->tlp_high_seq == index + 1)
		w->flags |= ACK_DSACK_PROBE;
	else if (f->reord_seen)
		rack_dsack(f);
	w->flags |= ACK_DSACK;
	count_delivered(f, w);
	if (f->tp.undo_marker && f->undo_retrans > 0 && !index_after(index, f->una) &&
	    !index_after(f->undo_from, index))
		f->undo_retrans--;
	if (!index_after(prior_una, index) && index_after(f->nxt, index)) {
		struct segment *s = segment_of(f, index);

		if (s->flags & SEG_RETRANS) {
			s->flags &= (u8)~SEG_RETRANS;
			f->tp.retrans_out--;
		}
	}
}

static void sack_blocks(struct flow *f, const struct packet *p, u32 prior_una, struct ack_work *w)
{
	w->reordered = f->nxt;
	for (u32 i = 0; i < p->sacks; i++) {
		u32 from = p->sack[i].from, to = p->sack[i].to;

		if (p->dsack && i == 0) {
			dsack_segment(f, from, prior_una, w);
			continue;
		}
		if (index_after(prior_una, from))
			from = prior_una;
		for (; index_after(to, from) && index_after(f->nxt, from); from++)
			sack_segment(f, from, w);
	}
	if (icsk_of(f)->icsk_ca_state != TCP_CA_Loss || f->tp.undo_marker)
		recovery_reordering(f, w->reordered);
}

/* --- the retransmission queue ------------------------------------------- */

/* tcp_skb_spurious_retrans(): the echoed timestamp is older than the retransmission */
static bool spurious(const struct flow *f, const struct segment *s)
{
	return s->flags & SEG_EVER_RETRANS &&
	       (s32)(f->tp.rx_opt.rcv_tsecr - flow_stamp(f, s->sent_ns)) < 0;
}

static void acked_segment(struct flow *f, u32 index, struct ack_work *w, u64 *first_ns,
			  u64 *last_ns, u32 *reordered)
{
	struct segment *s = segment_of(f, index);
	struct tcp_sock *tp = &f->tp;

	if (s->flags & SEG_EVER_RETRANS) {
		if (s->flags & SEG_RETRANS)
			tp->retrans_out--;
		w->flags |= ACK_RETRANS_ACKED;
	} else if (!(s->flags & SEG_SACKED)) {
		*last_ns = s->sent_ns;
		if (!*first_ns)
			*first_ns = s->sent_ns;
		if (index_after(*reordered, index))
			*reordered = index;
		if (index_after(f->high_seq, index))
			w->flags |= ACK_ORIG_ACKED;
	}
	if (s->flags & SEG_SACKED) {
		tp->sacked_out--;
	} else {
		count_delivered(f, w);
		if (!spurious(f, s))
			rack_advance(f, index, s->flags, s->sent_ns);
	}
	if (s->flags & SEG_LOST)
		tp->lost_out--;
	segment_unlist(f, index);
	s->flags = 0;
	tp->packets_out--;
	w->flags |= ACK_DATA_ACKED;
}

/* A retransmission is stamped with the departure that pacing has planned, and its ACK may come
 * before that: such a difference is negative, and tcp_rtt_tsopt_us() refuses it. */
#define STAMPED_RTT_MOST_MS (INT_MAX / 1000)

/* tcp_ack_update_rtt(): by segments that were sent once, else by timestamps */
static bool rtt_update(struct flow *f, const struct ack_work *w, s64 seq_us, s64 sack_us, s64 ca_us)
{
	u32 since_ms = flow_stamp(f, engine_now_ns) - f->tp.rx_opt.rcv_tsecr;

	if (seq_us < 0)
		seq_us = sack_us;
	if (seq_us < 0 && f->tp.rx_opt.rcv_tsecr && w->flags & ACK_DATA_ACKED &&
	    since_ms < STAMPED_RTT_MOST_MS)
		seq_us = ca_us = (s64)(since_ms ?: 1) * 1000;
	if (seq_us < 0)
		return false;
	min_rtt_put(f, ca_us > 0 ? (u32)ca_us : 1);
	srtt_put(f, seq_us);
	return true;
}

/* tcp_clean_rtx_queue() */
static void clean_queue(struct flow *f, u32 prior_una, u32 prior_highest, struct ack_work *w)
{
	u64 first_ns = 0, last_ns = 0;
	u32 reordered = f->nxt;
	s64 seq_us = NO_RTT, ca_us = NO_RTT, sack_us = NO_RTT;
	bool updated;

	for (u32 i = prior_una; i != f->una; i++)
		acked_segment(f, i, w, &first_ns, &last_ns, &reordered);
	if (first_ns && !(w->flags & ACK_RETRANS_ACKED)) {
		seq_us = since_sent_us(first_ns);
		ca_us = since_sent_us(last_ns);
	}
	if (w->first_sacked_ns) {
		sack_us = since_sent_us(w->first_sacked_ns);
		ca_us = since_sent_us(w->last_sacked_ns);
	}
	updated = rtt_update(f, w, seq_us, sack_us, ca_us);
	if (w->flags & ACK_DATA_ACKED) {
		w->flags |= ACK_SET_TIMER;
		if (index_after(prior_highest, reordered))
			recovery_reordering(f, reordered);
	} else if (f->una != f->nxt && updated && sack_us >= 0 &&
		   sack_us > since_sent_us(segment_of(f, f->una)->sent_ns)) {
		w->flags |= ACK_SET_TIMER;
	}
}

/* --- the ACK ------------------------------------------------------------ */

/* tcp_cong_control() */
static void cong_control(struct flow *f, u32 delivered, u32 newly_lost, const struct ack_work *w)
{
	u32 progress = f->reordering > TCP_REORDERING ? ACK_DATA_ACKED | ACK_SACKED
						      : ACK_DATA_ACKED;

	if (in_cwnd_reduction(f)) {
		recovery_reduce(f, delivered, newly_lost, w->flags & ACK_ADVANCED);
	} else if (w->flags & progress) {
		f->ca->cong_avoid(sock_of(f), f->tp.snd_una, delivered);
		flow_set_cwnd(f, f->tp.snd_cwnd);
		f->cwnd_stamp_ns = engine_now_ns;
	}
	output_pacing_rate(f);
}

/* tcp_xmit_recovery() */
static void xmit_recovery(struct flow *f, u32 rexmit)
{
	if (rexmit == REXMIT_NEW) {
		output_push(f);
		if (index_after(f->nxt, f->high_seq))
			return;
		f->frto = false;
	}
	if (rexmit != REXMIT_NONE)
		output_retransmit(f);
}

static bool dubious(struct flow *f, u32 flags)
{
	return !(flags & ACK_DATA_ACKED) || flags & (ACK_SACKED | ACK_ECE | ACK_DSACK) ||
	       icsk_of(f)->icsk_ca_state != TCP_CA_Open;
}

static void options_read(struct flow *f, const struct packet *p)
{
	f->tp.rx_opt.saw_tstamp = 1;
	f->tp.rx_opt.rcv_tsval = p->tsval;
	f->tp.rx_opt.rcv_tsecr = p->tsecr;
	f->window = p->window;
}

static void ack_take(struct flow *f, const struct packet *p)
{
	u32 prior_una = f->una, prior_delivered = f->tp.delivered, prior_lost = f->lost,
	    rexmit = REXMIT_NONE;
	u32 prior_highest = f->tp.sacked_out ? f->highest_sacked : f->una, delivered;
	struct ack_work w = { 0 };

	if (index_after(p->index, f->una)) {
		w.flags |= ACK_ADVANCED;
		f->retransmits = 0;
		f->una = p->index;
	}
	options_read(f, p);
	if (p->ece && f->ecn)
		w.flags |= ACK_ECE;
	if (p->sacks)
		sack_blocks(f, p, prior_una, &w);
	clean_queue(f, prior_una, prior_highest, &w);
	flow_publish_seqs(f);
	rack_update_window(f, prior_delivered);
	if (f->ca->in_ack_event)
		f->ca->in_ack_event(sock_of(f), w.flags & ACK_ECE ? CA_ACK_ECE : 0);
	if (f->tlp_active)
		recovery_probe_acked(f, p->index, w.flags);
	if (dubious(f, w.flags))
		recovery_alert(f, prior_una, &w.flags, &rexmit);
	if (w.flags & ACK_SET_TIMER && !output_schedule_probe(f, true))
		xmit_timer_rearm(f);
	delivered = f->tp.delivered - prior_delivered;
	cong_control(f, delivered, f->lost - prior_lost, &w);
	xmit_recovery(f, rexmit);
}

void ack_arrive(struct packet *p)
{
	struct flow *f = p->owner;

	flow_refresh_clock(f);
	if (f->running && !index_after(p->index, f->nxt) && !index_after(f->una, p->index) &&
	    f->tp.packets_out) {
		ack_take(f, p);
		output_push(f);
	}
	packet_free(p);
}
