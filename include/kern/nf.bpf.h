/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What NF-TCP's rooms share: a connection's state, its parameters, small getters. The
 * rooms, each of which includes only those above it:
 *
 *	kern/loan.bpf.h		the loan of the kernel's window
 *	kern/chirp.bpf.h, kern/chirp_answer.bpf.h
 *				a chirp's departures and its ACKs
 *	here
 *	kern/nf_slow_start.bpf.h
 *				slow start, and its end without a loss or mark
 *	kern/estimate.bpf.h	what chirps have found, and what follows for the window
 *	kern/probe.bpf.h	when a chirp begins, and how it ends
 *	kern/nf_small.bpf.h	windows below two packets
 *	kern/nf_reduce.bpf.h	eq. 2, losses
 *	kern/nf_record.bpf.h	the record in `flows`
 *	kern/pardon.bpf.h	the cause of a CWR: a mark, a chirp, or a loss
 *	bpf/nf_tcp.bpf.c	eq. 7 and 8, and the kernel's calls
 */
#ifndef CCBPF_KERN_NF_BPF_H
#define CCBPF_KERN_NF_BPF_H

#include "kern/chirp.bpf.h"
#include "kern/flow.bpf.h"
#include "kern/gentle.bpf.h"
#include "kern/loan.bpf.h"
#include "kern/params.bpf.h"
#include "law/aged.h"
#include "law/nf.h"

#define NF_BARE 2 /* losses */
#define NF_BARE_MOST 3
#define NF_REST_SHIFT 5 /* base RTTs: the least pause before a chirp while bare */
#define NF_BARE_US 4000 /* us: a smaller queue is not told from noise */
#define NF_TSO_SEGS 2 /* what the kernel takes by itself: sysctl_tcp_min_tso_segs */

extern struct nf_tcp_params params;

NF_TCP_PARAMS(PARAM_GETTER)

enum nf_echo { /* what an ACK's ECE answers */
	NF_ECHO_NONE,
	NF_ECHO_DATA,
	NF_ECHO_CHIRP,
	NF_ECHO_ANSWERED, /* data, and we have already reacted to it */
};

/* A connection's state, in icsk_ca_priv. */
struct nf {
	u64 due_us; /* our clock: the next chirp does not begin before this */
	struct gentle_start gentle;
	struct aged rtt; /* us: base RTT */
	struct loan loan;
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
	u32 before; /* packets: the window before the mark whose CWR goes on, else 0 */
	u16 queued; /* packets acknowledged in a row behind a queue, in slow start */
	u8 echo; /* enum nf_echo, of the ACK that is processed */
	u8 dscp; /* of the data, DSCP_UNKNOWN: not known */
	u8 row; /* doublings of eq. 2's b */
	u8 waits; /* enum ccbpf_chirp_wait: why no chirp began at the last try */
	u8 clean : 1; /* an RTT without mark and loss: a chirp may begin */
	u8 calm : 1; /* there was such an RTT since slow start: b doubles */
	u8 stored : 1; /* there is a struct nf_probe */
	u8 refused : 1; /* the kernel had no storage for it, which was reported */
	u8 estimated : 1; /* the target is an estimate's */
	u8 doubted : 1; /* ... after losses below earlier targets (law/range.h, 6.) */
	u8 promised : 1; /* ... it was above the window that was marked (`before`) */
	u8 avoiding : 1; /* slow start is behind us */
	u8 paced : 1; /* we switched the kernel's pacing on */
	u8 undone : 1; /* the kernel may raise ssthresh over a mark's cut */
	u8 open : 1; /* init() has run: the kernel calls ssthresh() before,
		      * when it has to send its SYN again */
	u8 bare : 2; /* losses since a queue was seen, up to NF_BARE_MOST; 0 after the first mark */
	u8 marked : 1; /* a router has marked this flow */
	u8 resumed : 1; /* an undo has brought back the first slow start */
};

_Static_assert(sizeof(struct nf) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "a connection's state must fit icsk_ca_priv");

static __always_inline struct nf *nf_of(struct sock *sk)
{
	return ca_of(sk);
}

/* The window is lent to pairs of packets. */
static __always_inline bool nf_small(struct nf *nf)
{
	return nf->loan.to == LOAN_PAIRS;
}

/* The window is lent to a CWR that is no congestion. */
static __always_inline bool pardon_given(struct nf *nf)
{
	return nf->loan.to == LOAN_PARDON;
}

static __always_inline u32 nf_base_us(struct nf *nf)
{
	s32 base_us = aged_min(&nf->rtt);

	return base_us == AGED_NO_MIN ? 0 : base_us;
}

/* us: the last packet's delay above the base RTT */
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

static __always_inline void nf_event(struct sock *sk, struct nf *nf, u32 type, u32 a, u32 b)
{
	struct flow_event e = nf_now(nf);

	e.type = type;
	e.a = a;
	e.b = b;
	flow_event(sk, &e);
}

/* No chirp for an RTT: also after a mark that comes while the kernel answers another. */
static __always_inline void nf_soiled(struct tcp_sock *tp, struct nf *nf)
{
	nf->clean = 0;
	nf->clean_until = tp->snd_nxt;
}

/* kbit/s: this flow's rate; in slow start the window is twice what was acknowledged. */
static __always_inline u32 nf_has_kbps(struct sock *sk, u32 window)
{
	struct tcp_sock *tp = tcp_of(sk);

	return nf_kbps(window >> sock_in_slow_start(tp), sock_srtt_us(tp), chirp_packet_bytes(sk));
}

/* Two losses without a queue between them, and nobody marks: eq. 8 is too much (law/nf.h, 8.).
 * Chirps find no queue there either: they are rare, and eq. 7 rests. They go on, because a
 * router on the path may mark a chirp's packets, where it would never mark so small a window. */
static __always_inline bool nf_bare(const struct nf *nf)
{
	return nf->bare >= NF_BARE;
}

/* us: no chirp for so long, after a loss or a chirp */
static __always_inline u64 nf_rest_us(struct nf *nf)
{
	return nf_bare(nf) ? (u64)nf_base_us(nf) << NF_REST_SHIFT : 0;
}

/* packets: what a window becomes by eq. 7 and 8; eq. 7 waits for an RTT without a mark */
static __always_inline u32 nf_grown(struct tcp_sock *tp, struct nf *nf, u32 window, u32 acked)
{
	bool fast = nf->clean && !nf_bare(nf);
	u32 slow_q8 = law_unlikely(nf_bare(nf)) ? nf_bare_share_q8(window) : NF_SHARE_ONE;

	window = nf_grow(&nf->credit, window, acked, fast ? nf->share_q8 : slow_q8,
			 fast ? nf->target : 0);
	return law_min(window, tp->snd_cwnd_clamp) ?: 1;
}

#endif
