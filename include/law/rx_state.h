/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The state of a receiver's control law for one connection, what it reads of an ACK, and its
 * constants (tests/sim/CONSTANTS.md has what other values would change). law/rx_delay.h measures,
 * law/rx_window.h is the specification.
 */
#ifndef CCBPF_LAW_RX_STATE_H
#define CCBPF_LAW_RX_STATE_H

#include "law/delay.h"
#include "law/le_loss.h"
#include "law/noise.h"
#include "law/rx_clock.h"
#include "law/silence.h"
#include "law/spacing.h"

#define RX_START_WINDOW 65535 /* bytes: the least in START */
#define RX_MOST (1u << 30)
#define RX_LEAST 1 /* packets: the window in SMALL */
#define RX_AHEAD_FLIGHTS 3 /* flights: what START has advertised is no more (RX_AHEAD) */
#define RX_AHEAD 5 /* halves: START's window is so many times what a round brings */

/* As le's parameters of these names. */
#define RX_THRESHOLD_US 4000
#define RX_NOISY_US \
	3000 /* above it a path is noisy; le: 2500, as its noise is less than a spread */
#define RX_THRESHOLD_MIN_US 1000 /* le: 500; a tick of most senders' clocks */
#define RX_GAP_MAX 16
#define RX_GAP_SHARE 150
#define RX_QUIET_ROUNDS 8
#define RX_MEMORY_S 180

/* A burst that rx_own_us() does not wholly explain looks like noise, and must not hide the queue of
 * others: beside an upload a foreground kept .49 in the worst of ten draws, now .79. With 4 ms the
 * download has 5.0 of 10 Mbit/s there, in place of 6.8. */
#define RX_NOISE_MOST_US 6000

#define RX_JITTER 2 /* times the jitter of single packets counts as noise (15) */
#define RX_JITTER_NEW 8 /* a new difference counts 1/8; RFC 3550: 1/16 */
#define RX_JITTER_FADES 64 /* 1/64 in a round of a window that shows the noise itself */
#define RX_NO_SINGLE (~0u)

#define RX_RETURN 4 /* on the way back the window grows by a packet for each 4 that came */
#define RX_DEEP_FIRST \
	8 /* this drain is the first deep one, the next ones are at twice its number */
#define RX_DEEP 4 /* a deep drain takes 1/4 of the window as well, a packet for each 4 that come */
#define RX_OWN 7 /* eighths of the time of a packet: what it adds to the own queue */
#define RX_OWN_MOST 64 /* packets that came with one ACK */
#define RX_FLAT 16 /* delays, 0.8 s apart, that stand still: a longer path; as le's pairs */
#define RX_UNSEEN 32 /* rounds without a delay: the law is blind */
#define RX_CARRIED 2 /* T: a path that has shown so much carries a queue */
#define RX_BARE 8 /* part of the window that a loss takes on a path that has shown no queue */
#define RX_IDLE_US 200000 /* the least RTO */
#define RX_FAR_US 8000 /* so far below all others one delay alone says nothing */
#define RX_DRIFT_US 2000 /* two ticks of most clocks: their rounding is no drift */
#define RX_DRIFT_SHIFT 10 /* 1/1024: 1000 ppm, clocks are within 200 */
#define RX_TICK_US 1000 /* of our TSval */
#define RX_JUMP_US (1 << 21) /* no queue was that long: our clock stood still (suspend) */

enum rx_verdict {
	RX_GROW,
	RX_DRAINED, /* the first indication */
	RX_YIELDED, /* others keep the queue */
	RX_LOSS,
};

/* Where a deep drain is. */
enum rx_depth {
	RX_SHALLOW, /* there is none */
	RX_SINKS, /* the window falls */
	RX_RISES, /* ... and comes back */
};

struct rx {
	struct delay delay; /* its average is not used */
	struct rx_clock clock;
	struct noise noise;
	struct spacing spacing;
	struct silence silence;
	struct le law;
	s32 offset_us; /* d = owd + offset */
	u32 packets; /* the window */
	u32 return_to; /* packets: a smaller window is on its way back */
	u32 credit; /* packets that came since the window grew */
	u32 part; /* bytes that came and are no whole packet */
	u32 rcv_nxt; /* of the last ACK */
	u32 heard_us; /* our clock: the last data */
	u32 since_us; /* from the data before it, 0: this ACK has no new data */
	u32 round_seq, round_us, round_ts; /* this round's beginning */
	u32 flight; /* bytes of the last round */
	u32 rtt_us; /* of the last round */
	u32 rtt_min_us;
	u32 back_way_us; /* the last round trip without the queue of the way here */
	u32 queue_us; /* the last sample */
	u32 own_us; /* the queue of this flow's own bursts, */
	u32 own_ts; /* when the packet with this TSval was sent */
	u32 low_us; /* the smallest of the last round, or NOISE_UNKNOWN */
	u32 single_us; /* SMALL: the delay of the last packet, or RX_NO_SINGLE */
	u32 jitter_us; /* of these packets: their mean difference */
	u32 hole_ts; /* TSval of what came first behind a hole */
	u32 hole_us; /* the queue then */
	u32 before; /* packets: the window before the last loss */
	u32 muted_until; /* sequence number: what a cut changes begins there */
	u32 follow_until; /* sequence number: how far a crept edge is followed */
	u32 flat_at_us; /* our clock: the delay was last compared with the one before */
	u8 waited; /* SMALL: rounds since the last one that counted */
	u8 unseen; /* rounds since the last delay, up to RX_UNSEEN */
	u8 drains; /* how many there were, modulo 256 */
	u8 passed : 1; /* JUDGE: its first block above T is past */
	u8 depth : 2; /* enum rx_depth */
	u8 lone : 1; /* the last delay was far below all before it */
	u8 started : 1;
	u8 avoiding : 1; /* START is over */
	u8 rounded : 1; /* there was a round trip of data */
	u8 hole : 1;
	u8 filled : 1; /* this ACK's packet filled a hole, or a part of it */
	u8 muted : 1; /* a cut's effect is awaited */
	u8 undoable : 1; /* the last cut was for a loss, */
	u8 from_start : 1; /* ... which ended START */
};

/* What the law reads of the socket. */
struct rx_ack {
	u32 now_us; /* our clock; of the newest packet's arrival where it is fresh */
	u64 long_us; /* the same in 64 bits */
	u32 our_ts; /* TSval that this ACK carries */
	u32 tsval, tsecr; /* of the newest packet */
	u32 rcv_nxt;
	u32 left; /* bytes from there to the right edge that is advertised */
	u32 mss; /* >= 1 */
	u32 unit; /* of the window scale: 1 << scale */
	u32 rtt_us; /* the handshake's; >= 1 */
	bool fresh; /* the ACK answers the newest packet at once */
	bool hole; /* data waits behind a hole */
	bool again; /* the newest packet had come before (D-SACK, RFC 2883) */
};

LAW void rx_begin_round(struct rx *x, const struct rx_ack *a)
{
	x->round_seq = a->rcv_nxt;
	x->round_us = a->now_us;
	x->round_ts = a->our_ts;
}

LAW void rx_init(struct rx *x, const struct rx_ack *a)
{
	delay_init(&x->delay);
	rx_clock_init(&x->clock);
	noise_init(&x->noise, 0);
	x->single_us = RX_NO_SINGLE;
	x->jitter_us = 0;
	spacing_init(&x->spacing, a->now_us);
	silence_init(&x->silence);
	le_begin(&x->law);
	x->rtt_us = x->rtt_min_us = law_clamp(a->rtt_us, RX_TICK_US, DELAY_MAX_US);
	x->offset_us = x->rtt_min_us;
	x->own_ts = a->tsval;
	x->rcv_nxt = a->rcv_nxt;
	x->heard_us = a->now_us;
	x->packets = RX_START_WINDOW / a->mss;
	x->started = 1;
	rx_begin_round(x, a);
}

/* SMALL: others keep the queue. */
LAW bool rx_small(const struct rx *x)
{
	return x->law.stage == LE_SMALL;
}

/* No delay is known, and only losses and time decide: the sender's clock fits no tick in use, or no
 * ACK answers a packet at once. */
LAW bool rx_blind(const struct rx *x)
{
	return !x->clock.tick_ns || x->unseen >= RX_UNSEEN;
}

/* us: for so long what comes now has met a path that stood still. A time that saturates is as
 * long as any delay: nothing is learned of it. */
LAW u32 rx_stood_us(const struct rx *x)
{
	u32 stood_us = silence_stood_us(&x->silence);

	return stood_us < SILENCE_MOST << SILENCE_SHIFT ? stood_us : DELAY_MAX_US;
}

/* us: what the jitter of single packets counts as noise of the path (15) */
LAW u32 rx_jitter(const struct rx *x)
{
	return law_min(x->jitter_us, RX_NOISE_MOST_US / RX_JITTER) * RX_JITTER;
}

LAW void rx_path(const struct rx *x, struct le_path *p)
{
	p->base_us = law_forget(law_max(x->rtt_min_us, x->back_way_us));
	p->base_seen = law_forget(le_base_seen(x->delay.rtt.now, x->delay.rtt.before));
	p->threshold_us = RX_THRESHOLD_US;
	p->threshold_min_us = RX_THRESHOLD_MIN_US;
	p->noise_us = 0;
	if (x->avoiding && le_steady(&x->law, x->packets))
		p->noise_us = law_min(noise_us(&x->noise), RX_NOISE_MOST_US);
	if (!rx_small(x))
		p->noise_us = law_max(p->noise_us, rx_jitter(x));
	p->noise_us = law_forget(p->noise_us);
	p->noisy_us = RX_NOISY_US;
	p->stood_us = law_forget(rx_stood_us(x));
	p->packet_us = x->spacing.packet_us;
	p->gap_max = RX_GAP_MAX;
	p->gap_share = RX_GAP_SHARE;
	p->quiet_rounds = RX_QUIET_ROUNDS;
}

/* us: a queue above it is an indication */
LAW u32 rx_threshold(const struct rx *x)
{
	struct le_path p;

	rx_path(x, &p);
	return le_threshold(&x->law, &p);
}

/* bytes: the window */
LAW u32 rx_bytes(const struct rx *x, u32 mss)
{
	return law_forget((u64)x->packets * mss) < RX_MOST ? x->packets * mss : RX_MOST;
}

#endif
