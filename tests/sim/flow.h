/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A TCP connection: the sender as Linux 6.12 has it, and the receiver. The names are the kernel's (struct tcp_sock,
 * net/ipv4/tcp_*.c), so that the two can be read side by side; the code is our own, written after what those functions do.
 *
 *	output.c     what is sent and when: window, pacing, TSO, probes of a lost tail
 *	ack.c        what an ACK says: the retransmission queue, SACK, round trips, the state machine, PRR
 *	recovery.c   which packets are lost (RACK), which reductions were needless (undo), timeouts
 *	fq.c         the sender's qdisc, where it is fq
 *	receiver.c   ACKs: delayed, quick, with SACK and ECN's echo
 *	download.c   the window of a receiver in the background
 *
 * Data is counted in full segments, numbered from 0; a sequence number is FLOW_FIRST_SEQ + segment * MSS. The known
 * differences to a kernel are listed in README.md here.
 */
#ifndef CCBPF_SIM_FLOW_H
#define CCBPF_SIM_FLOW_H

#include "vmlinux.h"

#include "ccbpf/types.h"
#include "path.h"

#define FLOW_FIRST_SEQ 7777u
#define FLOW_HEADERS 66 /* Ethernet, IPv4, TCP with timestamps: bytes of a frame beside the data */
#define FLOW_ACK_BYTES 66
#define FLOW_PACED_BY_FQ 2 /* enum sk_pacing */
#define PACING_SHIFT 10 /* sk_pacing_shift: a millisecond's worth */
#define FLOW_UNLIMITED (~0u)
#define FLOW_SWITCHES_MOST 4
#define NAME_LEN 32

#define TCP_INIT_CWND 10
#define TCP_INFINITE_SSTHRESH 0x7fffffffu
#define TCP_RTO_MIN_US 200000
#define TCP_RTO_INIT_US 1000000
#define TCP_RTO_MAX_US 120000000ull
#define TCP_TIMEOUT_MIN_US 8000 /* 2 jiffies at 250 Hz */
#define TCP_REORDERING 3
#define TCP_DELACK_MIN_US 40000
#define TCP_MAX_QUICKACKS 16
#define CA_ACK_ECE 4
#define PACING_UNLIMITED (~0ul)

enum {
	SEG_SACKED = 1, /* TCPCB_SACKED_ACKED */
	SEG_RETRANS = 2, /* TCPCB_SACKED_RETRANS: a retransmission of it is on its way */
	SEG_LOST = 4, /* TCPCB_LOST */
	SEG_EVER_RETRANS = 8, /* TCPCB_EVER_RETRANS */
	SEG_LISTED = 16, /* in the list by time of sending, as the kernel's tsorted_sent_queue */
};

/* One segment that is sent and not yet acknowledged. */
struct segment {
	u64 sent_ns;
	u32 older, newer; /* neighbours in the list, by number */
	u8 flags;
};

/* What a congestion controller gives: ours are compiled from bpf/, peers are in peers.c. */
struct controller {
	char name[NAME_LEN];
	bool ours;
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

struct receiver {
	u32 window; /* segments that it takes at once */
	u32 rcv_nxt; /* segment */
	u32 rcv_wup; /* rcv_nxt when the last ACK was sent */
	u8 *got; /* beyond rcv_nxt, a ring of one byte for each segment */
	u32 ring; /* its size, a power of two */
	struct {
		u32 from, to;
	} blocks[8]; /* out of order, the newest first */
	u32 n_blocks;
	u32 ts_recent;
	u32 quick; /* ACKs that are not delayed */
	u32 ato_us;
	u64 last_data_ns;
	struct timer delayed;
	bool demand_cwr; /* ECE on every ACK */
	bool pending_now;
	u32 dsack_segment;
	bool dsack;
	u64 clock_offset_us;
	double clock_drift;
	u64 lies_ns; /* from then on its clock hides each queue; 0: it is honest */
	u32 least_ms; /* its clock less the newest packet's, at the least */
	u64 delivered; /* segments in order, in all */
	u64 last_arrival_ns; /* on the reverse way, for in-order jitter */
	u32 last_tsval, last_tsecr; /* of the newest packet */
	struct download *download; /* NULL: the window stays as it is */
};

enum xmit_timer {
	XMIT_NONE,
	XMIT_RETRANS,
	XMIT_PROBE,
	XMIT_REORDER,
};

struct flow {
	struct tcp_sock tp; /* what programs see; the first member: a struct sock is a flow */
	const struct controller *ca;
	void *storage; /* of the program that this socket uses */
	const void *storage_map;
	char name[NAME_LEN];
	u32 number;

	bool fq; /* the sender's qdisc is fq */
	u32 held_by_fq; /* packets */

	/* the retransmission queue */
	struct segment *ring;
	u32 ring_size; /* a power of two */
	u32 una, nxt; /* segments */
	u32 oldest, newest; /* of the list by time of sending */
	u32 retransmit_hint; /* no segment below it waits for a retransmission */
	u32 highest_sacked; /* segment behind the highest one that was SACKed */

	/* tcp_sock's members that programs do not see; segments where the kernel has sequence numbers */
	u32 high_seq, undo_from, tlp_high_seq, cwnd_usage_seq, rtt_seq;
	int undo_retrans;
	bool tlp_active, tlp_retrans;
	u32 prr_delivered, prr_out, reordering, reord_seen;
	u32 mdev_us, mdev_max_us, rttvar_us;
	u64 rto_us;
	u32 rto_backoffs, retransmits;
	bool frto, rack_advanced;
	u64 rack_sent_ns;
	u32 rack_segment, rack_steps, rack_persist, rack_last_delivered;
	bool rack_dsack_seen;
	u32 min_rtt_us, min_rtt_before_us; /* of this half of 300 s and the one before */
	u64 min_rtt_turned_ns;
	u32 retrans_stamp; /* tick of the first retransmission of an episode; 0: none */
	u64 last_sent_ns;
	u32 cwnd_used;
	u64 cwnd_stamp_ns;
	u32 lost; /* segments ever marked lost */
	bool cwnd_limited_by_tso;

	struct timer xmit, pace;
	enum xmit_timer pending;

	/* the path and the application */
	struct way *forward, *reverse;
	u64 delay_ns; /* one way */
	u64 *base_delay_ns; /* of the link: changes with it; NULL: the flow has its own */
	u64 last_arrival_ns;
	u64 clock_offset_us;
	u32 queued; /* segments that the application has written; FLOW_UNLIMITED: always more */
	double app_segments_per_s; /* 0: as many as TCP takes */
	u32 window; /* segments that the receiver takes */
	bool running, ecn, background;
	u8 dscp;
	u32 recoveries, timeouts, undone;
	void *peer_state; /* of a controller in peers.c */

	struct receiver peer;
};

static inline struct flow *flow_of(struct sock *sk)
{
	return (struct flow *)sk;
}

static inline struct sock *sock_of(struct flow *f)
{
	return (struct sock *)&f->tp;
}

static inline struct inet_connection_sock *icsk_of(struct flow *f)
{
	return &f->tp.inet_conn;
}

static inline bool index_after(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

static inline struct segment *segment_of(struct flow *f, u32 index)
{
	return &f->ring[index & (f->ring_size - 1)];
}

static inline u32 in_flight(const struct flow *f)
{
	const struct tcp_sock *tp = &f->tp;

	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

static inline bool in_cwnd_reduction(struct flow *f)
{
	return icsk_of(f)->icsk_ca_state == TCP_CA_CWR ||
	       icsk_of(f)->icsk_ca_state == TCP_CA_Recovery;
}

/* us since then, tcp_stamp_us_delta(): 0 where the stamp is of a departure to come */
static inline s64 since_sent_us(u64 sent_ns)
{
	u64 now_us = engine_now_ns / NS_PER_US, then_us = sent_ns / NS_PER_US;

	return now_us > then_us ? (s64)(now_us - then_us) : 0;
}

/* ms, as both hosts' timestamps tick */
static inline u32 flow_stamp(const struct flow *f, u64 at_ns)
{
	return (u32)((at_ns / NS_PER_US + f->clock_offset_us) / 1000);
}

/* flow.c */
void flow_init(struct flow *f, const struct controller *ca, u64 seed);
void flow_start(struct flow *f);
void flow_stop(struct flow *f);
void flow_switch(struct flow *f, const struct controller *ca);
void flow_refresh_clock(struct flow *f); /* tcp_mstamp_refresh() */
void flow_publish_seqs(struct flow *f); /* snd_una, snd_nxt, write_seq of the programs' view */
void flow_set_cwnd(struct flow *f, u32 cwnd);
void flow_ca_event(struct flow *f, enum tcp_ca_event event);
void flow_set_ca_state(struct flow *f, u8 state);
u32 flow_current_ssthresh(struct flow *f);
u32 flow_min_rtt_us(struct flow *f);

/* output.c */
void segment_unlist(struct flow *f, u32 index); /* from the list by time of sending */
void output_push(struct flow *f); /* new data, tcp_write_xmit() */
void output_retransmit(struct flow *f); /* tcp_xmit_retransmit_queue() */
void output_retransmit_one(struct flow *f, u32 index);
void output_resume(void *flow); /* the pacing timer, or a packet has left fq */
void output_send_probe(struct flow *f); /* TLP */
bool output_schedule_probe(struct flow *f, bool advancing);
void output_restart_after_idle(struct flow *f);
void output_pacing_rate(struct flow *f);

/* fq.c */
bool fq_paces(struct flow *f);
void fq_send(struct flow *f, struct packet *p); /* at its departure, tcp_wstamp_ns */
bool fq_is_full(struct flow *f);

/* ack.c */
void ack_arrive(struct packet *p);

/* recovery.c */
void rack_advance(struct flow *f, u32 index, u8 flags, u64 sent_ns);
void rack_dsack(struct flow *f);
void rack_update_window(struct flow *f, u32 prior_delivered);
void recovery_alert(struct flow *f, u32 prior_una, u32 *flags, u32 *rexmit);
void recovery_probe_acked(struct flow *f, u32 ack, u32 flags);
void recovery_reordering(struct flow *f, u32 low);
void recovery_reduce(struct flow *f, u32 delivered, u32 newly_lost, bool advanced); /* PRR */
void xmit_timer_rearm(struct flow *f); /* tcp_rearm_rto() */
void xmit_timer_set(struct flow *f, enum xmit_timer what, u64 delay_us, bool paced);
void xmit_timer_expired(void *flow);

/* receiver.c */
void receiver_init(struct flow *f, u64 seed);
u32 receiver_stamp(const struct receiver *r); /* its clock, in ms */
void receiver_arrive(struct packet *p);

/* What an ACK was, FLAG_ of net/ipv4/tcp_input.c. */
enum {
	ACK_ADVANCED = 1, /* snd_una moved */
	ACK_DATA_ACKED = 2, /* ... over data */
	ACK_SACKED = 4,
	ACK_ECE = 8,
	ACK_DSACK = 16,
	ACK_DSACK_PROBE = 32,
	ACK_ORIG_ACKED = 64, /* never retransmitted data below high_seq */
	ACK_LOST_RETRANS = 128,
	ACK_SET_TIMER = 256,
	ACK_RETRANS_ACKED = 512,
};

enum {
	REXMIT_NONE,
	REXMIT_LOST,
	REXMIT_NEW,
};

#endif
