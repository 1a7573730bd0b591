// SPDX-License-Identifier: GPL-2.0-only
/*
 * Losses: which segments are lost (net/ipv4/tcp_recovery.c), the states that follow from it, needless reductions that
 * are taken back, and timeouts (net/ipv4/tcp_timer.c). See flow.h.
 */
#include "flow.h"

#define RACK_STEPS_MOST 255
#define RACK_PERSIST 16 /* TCP_RACK_RECOVERY_THRESH */
#define REORDERING_MOST 300 /* sysctl_tcp_max_reordering */
#define QUEUE_CWR 2 /* TCP_ECN_QUEUE_CWR */

/* --- RACK --------------------------------------------------------------- */

static bool sent_after(u64 a_ns, u32 a, u64 b_ns, u32 b)
{
	return a_ns != b_ns ? a_ns > b_ns : index_after(a, b);
}

void rack_advance(struct flow *f, u32 index, u8 flags, u64 sent_ns)
{
	u32 rtt_us = (u32)since_sent_us(sent_ns);

	if (flags & SEG_EVER_RETRANS && rtt_us < flow_min_rtt_us(f))
		return; /* of the first one that was sent */
	f->rack_advanced = true;
	f->tp.rack.rtt_us = rtt_us;
	if (!f->rack_sent_ns || sent_after(sent_ns, index, f->rack_sent_ns, f->rack_segment)) {
		f->rack_sent_ns = sent_ns;
		f->rack_segment = index;
	}
}

void rack_dsack(struct flow *f)
{
	f->rack_dsack_seen = true;
}

/* tcp_rack_update_reo_wnd() */
void rack_update_window(struct flow *f, u32 prior_delivered)
{
	if ((s32)(prior_delivered - f->rack_last_delivered) < 0)
		f->rack_dsack_seen = false;
	if (f->rack_dsack_seen) {
		f->rack_steps += f->rack_steps < RACK_STEPS_MOST;
		f->rack_dsack_seen = false;
		f->rack_last_delivered = f->tp.delivered;
		f->rack_persist = RACK_PERSIST;
	} else if (!f->rack_persist) {
		f->rack_steps = 1;
	}
}

static u32 rack_window_us(struct flow *f)
{
	u32 window_us = (flow_min_rtt_us(f) >> 2) * f->rack_steps, srtt_us = f->tp.srtt_us >> 3;

	if (!f->reord_seen &&
	    (icsk_of(f)->icsk_ca_state >= TCP_CA_Recovery || f->tp.sacked_out >= f->reordering))
		return 0;
	return window_us < srtt_us ? window_us : srtt_us;
}

static void mark_lost(struct flow *f, u32 index)
{
	struct segment *s = segment_of(f, index);

	if (s->flags & SEG_SACKED)
		return;
	if (s->flags & SEG_LOST) {
		if (!(s->flags & SEG_RETRANS))
			return;
		s->flags &= (u8)~SEG_RETRANS; /* the retransmission is lost as well */
		f->tp.retrans_out--;
	} else {
		s->flags |= SEG_LOST;
		f->tp.lost_out++;
	}
	f->lost++;
	if (index_after(f->retransmit_hint, index))
		f->retransmit_hint = index;
}

/* tcp_rack_detect_loss(). Returns us until the next segment is due, 0: none is. */
static u32 detect_loss(struct flow *f)
{
	u32 window_us = rack_window_us(f), wait_us = 0, index, next;
	u64 now_us = engine_now_ns / NS_PER_US;

	for (index = f->oldest; index != FLOW_UNLIMITED; index = next) {
		struct segment *s = segment_of(f, index);
		s64 left_us =
			(s64)f->tp.rack.rtt_us + window_us - (s64)(now_us - s->sent_ns / NS_PER_US);

		next = s->newer;
		if (s->flags & SEG_LOST && !(s->flags & SEG_RETRANS))
			continue;
		if (!sent_after(f->rack_sent_ns, f->rack_segment, s->sent_ns, index))
			break;
		if (left_us <= 0) {
			mark_lost(f, index);
			segment_unlist(f, index);
		} else if ((u64)left_us > wait_us) {
			wait_us = (u32)left_us;
		}
	}
	return wait_us;
}

/* tcp_identify_packet_loss(); true: a retransmission was lost */
static bool identify_loss(struct flow *f, u32 *flags)
{
	u32 retrans = f->tp.retrans_out, wait_us;

	if (f->una == f->nxt || !f->rack_advanced)
		return false;
	f->rack_advanced = false;
	wait_us = detect_loss(f);
	if (wait_us) {
		xmit_timer_set(f, XMIT_REORDER, wait_us + TCP_TIMEOUT_MIN_US, false);
		*flags &= ~ACK_SET_TIMER;
	}
	return retrans > f->tp.retrans_out;
}

/* tcp_check_sack_reordering() */
void recovery_reordering(struct flow *f, u32 low)
{
	u32 highest = f->tp.sacked_out ? f->highest_sacked : f->una;

	if (!index_after(highest, low))
		return;
	if (highest - low > f->reordering)
		f->reordering = highest - low < REORDERING_MOST ? highest - low : REORDERING_MOST;
	f->reord_seen++;
}

/* --- reductions --------------------------------------------------------- */

static void undo_arm(struct flow *f)
{
	f->tp.undo_marker = 1;
	f->undo_from = f->una;
	f->undo_retrans = (int)f->tp.retrans_out + (f->tlp_active && f->tlp_retrans);
	if (!f->undo_retrans)
		f->undo_retrans = -1;
}

/* tcp_init_cwnd_reduction() */
static void reduction_begin(struct flow *f)
{
	f->high_seq = f->nxt;
	f->tlp_active = false;
	f->tp.snd_cwnd_cnt = 0;
	f->tp.prior_cwnd = f->tp.snd_cwnd;
	f->prr_delivered = 0;
	f->prr_out = 0;
	f->tp.snd_ssthresh = f->ca->ssthresh(sock_of(f));
	if (f->ecn)
		f->tp.ecn_flags |= QUEUE_CWR;
}

/* RFC 6937, as tcp_cwnd_reduction() has it */
void recovery_reduce(struct flow *f, u32 delivered, u32 newly_lost, bool advanced)
{
	struct tcp_sock *tp = &f->tp;
	s32 room = (s32)(tp->snd_ssthresh - in_flight(f)), send;

	if (!delivered || !f->tp.prior_cwnd)
		return;
	f->prr_delivered += delivered;
	if (room < 0) {
		send = (s32)(((u64)tp->snd_ssthresh * f->prr_delivered + f->tp.prior_cwnd - 1) /
			     f->tp.prior_cwnd) -
		       (s32)f->prr_out;
	} else {
		send = (s32)(f->prr_delivered - f->prr_out);
		send = send > (s32)delivered ? send : (s32)delivered;
		send += advanced && !newly_lost;
		send = send < room ? send : room;
	}
	if (send < (f->prr_out ? 0 : 1))
		send = f->prr_out ? 0 : 1;
	flow_set_cwnd(f, in_flight(f) + (u32)send ?: 1);
}

/* tcp_end_cwnd_reduction() */
static void reduction_end(struct flow *f)
{
	struct tcp_sock *tp = &f->tp;

	if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH &&
	    (icsk_of(f)->icsk_ca_state == TCP_CA_CWR || f->tp.undo_marker)) {
		flow_set_cwnd(f, tp->snd_ssthresh);
		f->cwnd_stamp_ns = engine_now_ns;
	}
	flow_ca_event(f, CA_EVENT_COMPLETE_CWR);
}

static void enter_cwr(struct flow *f)
{
	f->tp.prior_ssthresh = 0;
	if (icsk_of(f)->icsk_ca_state >= TCP_CA_CWR)
		return;
	f->tp.undo_marker = 0;
	reduction_begin(f);
	flow_set_ca_state(f, TCP_CA_CWR);
}

static bool any_retrans(struct flow *f)
{
	return f->tp.retrans_out ||
	       (f->una != f->nxt && segment_of(f, f->una)->flags & SEG_EVER_RETRANS);
}

static void keep_open(struct flow *f)
{
	u8 state = f->tp.sacked_out || f->tp.lost_out || any_retrans(f) ? TCP_CA_Disorder
									: TCP_CA_Open;

	if (icsk_of(f)->icsk_ca_state == state)
		return;
	flow_set_ca_state(f, state);
	f->high_seq = f->nxt;
}

static void try_to_open(struct flow *f, u32 flags)
{
	if (!any_retrans(f))
		f->retrans_stamp = 0;
	if (flags & ACK_ECE)
		enter_cwr(f);
	if (icsk_of(f)->icsk_ca_state != TCP_CA_CWR)
		keep_open(f);
}

static void enter_recovery(struct flow *f, bool ece)
{
	if (!any_retrans(f))
		f->retrans_stamp = 0;
	f->recoveries++;
	f->tp.prior_ssthresh = 0;
	undo_arm(f);
	if (!in_cwnd_reduction(f)) {
		if (!ece)
			f->tp.prior_ssthresh = flow_current_ssthresh(f);
		reduction_begin(f);
	}
	flow_set_ca_state(f, TCP_CA_Recovery);
}

/* --- undo --------------------------------------------------------------- */

/* tcp_packet_delayed(): the echo is older than the first retransmission */
static bool packet_delayed(const struct flow *f)
{
	if (!f->retrans_stamp)
		return true;
	return f->tp.rx_opt.rcv_tsecr && (s32)(f->tp.rx_opt.rcv_tsecr - f->retrans_stamp) < 0;
}

static bool may_undo(const struct flow *f)
{
	return f->tp.undo_marker && (!f->undo_retrans || packet_delayed(f));
}

/* tcp_undo_cwnd_reduction() */
static void undo(struct flow *f, bool unmark)
{
	struct tcp_sock *tp = &f->tp;

	if (unmark) {
		for (u32 i = f->una; i != f->nxt; i++)
			segment_of(f, i)->flags &= (u8)~SEG_LOST;
		tp->lost_out = 0;
		f->retransmit_hint = f->una;
	}
	if (tp->prior_ssthresh) {
		flow_set_cwnd(f, f->ca->undo_cwnd(sock_of(f)));
		if (tp->prior_ssthresh > tp->snd_ssthresh) {
			tp->snd_ssthresh = tp->prior_ssthresh;
			tp->ecn_flags &= (u8)~QUEUE_CWR;
		}
	}
	f->undone++;
	f->cwnd_stamp_ns = engine_now_ns;
	f->tp.undo_marker = 0;
	f->rack_advanced = true;
}

static void undo_recovery(struct flow *f)
{
	if (may_undo(f))
		undo(f, false);
	else if (f->rack_persist)
		f->rack_persist--;
	flow_set_ca_state(f, TCP_CA_Open);
}

static bool undo_dsack(struct flow *f)
{
	if (!f->tp.undo_marker || f->undo_retrans)
		return false;
	f->rack_persist += f->rack_persist < RACK_PERSIST;
	undo(f, false);
	return true;
}

static bool undo_loss(struct flow *f, bool frto)
{
	if (!frto && !may_undo(f))
		return false;
	undo(f, true);
	f->retransmits = 0;
	flow_set_ca_state(f, TCP_CA_Open);
	return true;
}

/* tcp_try_undo_partial(); true: nothing more is marked or sent again */
static bool undo_partial(struct flow *f, u32 prior_una)
{
	if (!f->tp.undo_marker || !packet_delayed(f))
		return false;
	recovery_reordering(f, prior_una);
	if (f->tp.retrans_out)
		return true;
	if (!any_retrans(f))
		f->retrans_stamp = 0;
	undo(f, true);
	keep_open(f);
	return false;
}

/* --- the state machine -------------------------------------------------- */

/* tcp_process_loss() */
static void process_loss(struct flow *f, u32 flags, u32 *rexmit)
{
	bool recovered = !index_after(f->high_seq, f->una);

	if (flags & ACK_ADVANCED && undo_loss(f, false))
		return;
	if (f->frto) {
		if (flags & ACK_ORIG_ACKED && undo_loss(f, true))
			return;
		if (index_after(f->nxt, f->high_seq)) {
			if (flags & ACK_SACKED || !(flags & (ACK_ADVANCED | ACK_DSACK)))
				f->frto = false;
		} else if (flags & ACK_ADVANCED && !recovered) {
			f->high_seq = f->nxt;
			if (f->queued != f->nxt && f->window > f->nxt - f->una) {
				*rexmit = REXMIT_NEW;
				return;
			}
			f->frto = false;
		}
	}
	if (recovered) {
		undo_recovery(f);
		return;
	}
	*rexmit = REXMIT_LOST;
}

/* The end of the episode: all that was sent before it is acknowledged. */
static void leave_episode(struct flow *f)
{
	switch (icsk_of(f)->icsk_ca_state) {
	case TCP_CA_CWR: /* the receiver has to see the CWR bit */
		if (f->una != f->high_seq) {
			reduction_end(f);
			flow_set_ca_state(f, TCP_CA_Open);
		}
		break;
	case TCP_CA_Recovery:
		undo_recovery(f);
		reduction_end(f);
		break;
	}
}

/* In CWR, Open or Disorder, or in Loss where that is over or not enough; true: repair. */
static bool alert_default(struct flow *f, u32 *flags)
{
	if (icsk_of(f)->icsk_ca_state <= TCP_CA_Disorder)
		undo_dsack(f);
	identify_loss(f, flags);
	if (!f->tp.lost_out) {
		try_to_open(f, *flags);
		return false;
	}
	enter_recovery(f, *flags & ACK_ECE);
	return true;
}

static bool alert_recovery(struct flow *f, u32 prior_una, u32 *flags)
{
	if (*flags & ACK_ADVANCED && undo_partial(f, prior_una))
		return false;
	if (undo_dsack(f))
		try_to_open(f, *flags);
	identify_loss(f, flags);
	if (icsk_of(f)->icsk_ca_state == TCP_CA_Recovery)
		return true;
	if (!f->tp.lost_out)
		return false;
	enter_recovery(f, *flags & ACK_ECE);
	return true;
}

/* tcp_fastretrans_alert() */
void recovery_alert(struct flow *f, u32 prior_una, u32 *flags, u32 *rexmit)
{
	bool repair, again;

	if (*flags & ACK_ECE)
		f->tp.prior_ssthresh = 0;
	if (icsk_of(f)->icsk_ca_state == TCP_CA_Open)
		f->retrans_stamp = 0;
	else if (!index_after(f->high_seq, f->una))
		leave_episode(f);
	switch (icsk_of(f)->icsk_ca_state) {
	case TCP_CA_Recovery:
		repair = alert_recovery(f, prior_una, flags);
		break;
	case TCP_CA_Loss:
		process_loss(f, *flags, rexmit);
		again = identify_loss(f, flags);
		if (icsk_of(f)->icsk_ca_state != TCP_CA_Open && !again)
			return;
		repair = alert_default(f, flags);
		break;
	default:
		repair = alert_default(f, flags);
	}
	if (repair)
		*rexmit = REXMIT_LOST;
}

/* tcp_process_tlp_ack() */
void recovery_probe_acked(struct flow *f, u32 ack, u32 flags)
{
	if (index_after(f->tlp_high_seq, ack))
		return;
	if (!f->tlp_retrans || flags & ACK_DSACK_PROBE) {
		f->tlp_active = false;
	} else if (index_after(ack, f->tlp_high_seq)) {
		reduction_begin(f);
		flow_set_ca_state(f, TCP_CA_CWR);
		reduction_end(f);
		keep_open(f);
	} else if (!(flags & (ACK_ADVANCED | ACK_SACKED | ACK_DATA_ACKED))) {
		f->tlp_active = false;
	}
}

/* --- timers ------------------------------------------------------------- */

/* tcp_reset_xmit_timer(); @paced: the wait of the next departure is added */
void xmit_timer_set(struct flow *f, enum xmit_timer what, u64 delay_us, bool paced)
{
	u64 at_ns = engine_now_ns + delay_us * NS_PER_US;

	if (paced && f->tp.tcp_wstamp_ns > engine_now_ns)
		at_ns += f->tp.tcp_wstamp_ns - engine_now_ns;
	f->pending = what;
	timer_set(&f->xmit, at_ns);
}

/* tcp_rearm_rto() */
void xmit_timer_rearm(struct flow *f)
{
	u64 rto_us = f->rto_us, due_ns;

	if (!f->tp.packets_out) {
		f->pending = XMIT_NONE;
		timer_clear(&f->xmit);
		return;
	}
	if (f->pending == XMIT_REORDER || f->pending == XMIT_PROBE) {
		due_ns = segment_of(f, f->una)->sent_ns + rto_us * NS_PER_US;
		rto_us = due_ns > engine_now_ns + NS_PER_US ? (due_ns - engine_now_ns) / NS_PER_US
							    : 1;
	}
	xmit_timer_set(f, XMIT_RETRANS, rto_us, true);
}

/* tcp_enter_loss() */
static void enter_loss(struct flow *f)
{
	u8 state = icsk_of(f)->icsk_ca_state;
	struct tcp_sock *tp = &f->tp;

	for (u32 i = f->una; i != f->nxt; i++) {
		u64 age_us = (engine_now_ns - segment_of(f, i)->sent_ns) / NS_PER_US;

		if (segment_of(f, i)->sent_ns < engine_now_ns &&
		    (i == f->una || age_us >= tp->rack.rtt_us))
			mark_lost(f, i);
	}
	f->retransmit_hint = f->una;
	if (state <= TCP_CA_Disorder || !index_after(f->high_seq, f->una) ||
	    (state == TCP_CA_Loss && !f->retransmits)) {
		tp->prior_ssthresh = flow_current_ssthresh(f);
		f->tp.prior_cwnd = tp->snd_cwnd;
		tp->snd_ssthresh = f->ca->ssthresh(sock_of(f));
		flow_ca_event(f, CA_EVENT_LOSS);
		undo_arm(f);
	}
	flow_set_cwnd(f, in_flight(f) + 1);
	tp->snd_cwnd_cnt = 0;
	f->cwnd_stamp_ns = engine_now_ns;
	if (state <= TCP_CA_Disorder && tp->sacked_out >= TCP_REORDERING &&
	    f->reordering > TCP_REORDERING)
		f->reordering = TCP_REORDERING;
	f->frto = state < TCP_CA_Recovery || f->retransmits;
	flow_set_ca_state(f, TCP_CA_Loss);
	f->high_seq = f->nxt;
	f->tlp_active = false;
	if (f->ecn)
		tp->ecn_flags |= QUEUE_CWR;
}

/* tcp_retransmit_timer() */
static void retransmit_timeout(struct flow *f)
{
	f->timeouts++;
	enter_loss(f);
	f->retransmits++;
	if (!(segment_of(f, f->una)->flags & SEG_LOST))
		mark_lost(f, f->una);
	output_retransmit_one(f, f->una);
	f->rto_backoffs++;
	f->rto_us = 2 * f->rto_us < TCP_RTO_MAX_US ? 2 * f->rto_us : TCP_RTO_MAX_US;
	output_pacing_rate(f);
	xmit_timer_set(f, XMIT_RETRANS, f->rto_us, true);
}

/* tcp_rack_reo_timeout() */
static void reorder_timeout(struct flow *f)
{
	u32 flying = in_flight(f), lost = f->lost;

	detect_loss(f);
	if (in_flight(f) != flying) {
		if (icsk_of(f)->icsk_ca_state != TCP_CA_Recovery) {
			enter_recovery(f, false);
			recovery_reduce(f, 1, f->lost - lost, false);
		}
		output_retransmit(f);
	}
	if (f->pending != XMIT_RETRANS)
		xmit_timer_rearm(f);
}

void xmit_timer_expired(void *flow)
{
	struct flow *f = flow;

	if (!f->tp.packets_out)
		return;
	flow_refresh_clock(f);
	switch (f->pending) {
	case XMIT_PROBE:
		output_send_probe(f);
		break;
	case XMIT_REORDER:
		reorder_timeout(f);
		break;
	case XMIT_RETRANS:
		retransmit_timeout(f);
		break;
	case XMIT_NONE:
		break;
	}
}
