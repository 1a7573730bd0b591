/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ACKs of a chirp (kern/chirp.bpf.h): each one is a step's sample of delay and mark.
 * After the last ACK the law computes an estimate from the samples (law/knee.h, law/range.h).
 */
#ifndef CCBPF_KERN_CHIRP_ANSWER_BPF_H
#define CCBPF_KERN_CHIRP_ANSWER_BPF_H

#include "kern/chirp.bpf.h"

static __always_inline void chirp_sample(struct chirp_flight *f, u32 step, u64 now_ns, bool ece)
{
	f->c.delay_us[law_index(step, CHIRP_MOST)] =
		(now_ns - f->at_ns[law_index(step, CHIRP_SLOTS)]) / 1000;
	f->c.sampled |= 1 << step;
	if (ece)
		f->c.ece |= 1 << step;
}

/* Does this ACK cover a packet of a chirp, perhaps of a discarded one? Then its mark is the
 * answer to a chirp. */
static __always_inline bool chirp_covers(struct tcp_sock *tp, struct chirp *ch)
{
	return law_after(tp->snd_una, ch->begin) &&
	       (ch->phase == CHIRP_SENDING || !law_after(tp->snd_una, ch->end));
}

/* An ACK of a chirp's packet, in SENDING or RETURNING: it is the sample of the newest step
 * that it covers. */
static __always_inline void chirp_acked(struct tcp_sock *tp, struct chirp_flight *f, bool ece)
{
	u32 bytes = f->mss * f->c.burst, span = tp->snd_una - f->seq0, step;

	if (!bytes || span < f->mss)
		return;
	step = (span - f->mss) / bytes;
	if (step < f->heard || step > f->next || step >= f->plan)
		return;
	chirp_sample(f, step, tp->tcp_clock_cache, ece);
	f->heard = step + 1;
}

/* A mark ends a chirp that is still being sent: it then has only the steps that have left. */
static __always_inline void chirp_cut_short(struct tcp_sock *tp, struct chirp_flight *f)
{
	if (tp->snd_nxt - f->seq == f->c.burst * f->mss)
		chirp_next(tp, f);
}

/* Has every packet come back, or is there nothing more to come? */
static __always_inline bool chirp_returned(struct tcp_sock *tp, struct chirp *ch,
					   struct chirp_flight *f)
{
	return f->heard >= f->next || !law_after(ch->end, tp->snd_una);
}

/* The estimate of a chirp. A function of its own, so that the verifier checks it once and
 * not for each path that leads here. */
__noinline int chirp_estimate(struct nf_range *r, struct knee_chirp *c, struct knee_estimate *e,
			      struct range_params *par, u32 now_kius)
{
	if (!r || !c || !e || !par)
		return 0;
	knee_estimate(c, e);
	range_result(r, par, c, e, now_kius);
	return 0;
}

#endif
