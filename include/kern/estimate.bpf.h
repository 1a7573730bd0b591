/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The estimate of NF-TCP: what its chirps have found, in storage that a flow has from its
 * first chirp on, and what that means for the window (NF-TCP paper, 3.2).
 *
 *	refresh		BW_est -> share and target of eq. 7
 *	void		a mark, a loss or an idle time: BW_est = 0, eq. 8
 *	doubt		a loss below the target: the estimate was wrong
 *	reached		the window came to the target: doubt ends
 *	slow start	ends at the target
 */
#ifndef CCBPF_KERN_ESTIMATE_BPF_H
#define CCBPF_KERN_ESTIMATE_BPF_H

#include "kern/nf_slow_start.bpf.h"

#define PROBE_BYTE_KBPS 125 /* bytes/s in a kbit/s */

/* State that only chirps need; it exists from the first chirp on. */
struct nf_probe {
	struct chirp_flight flight;
	struct nf_range range;
	struct knee_estimate estimate;
	u32 sent; /* chirps */
	u32 complete;
	u32 discarded;
	u32 bytes;
	u32 cost_us; /* what the last chirp cost the flow */
	u32 missed; /* chirps that were discarded since the last complete one */
	u32 why; /* enum ccbpf_chirp_end, of the last one that was discarded */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct nf_probe);
} nf_probes SEC(".maps");

static __always_inline struct nf_probe *probe_of(struct sock *sk)
{
	return bpf_sk_storage_get(&nf_probes, sk, 0, 0);
}

static __always_inline void probe_params(struct sock *sk, struct range_params *par)
{
	u64 limit_kbps = sk->sk_max_pacing_rate / PROBE_BYTE_KBPS;
	u32 ceiling_kbps = chirp_ceiling_kbps(chirp_packet_bytes(sk), CHIRP_GAP_NS);

	par->spread = param_spread();
	par->steps = param_packets();
	par->alpha = param_alpha();
	par->floor_kbps = param_min_rate();
	par->ceiling_kbps = limit_kbps < ceiling_kbps ? limit_kbps : ceiling_kbps;
}

/* The kernel has no memory for a flow's chirps (since 6.19 there is no socket
 * storage on x86 without cmpxchg16b). Counted and reported once for each flow. */
static __noinline int probe_refused(struct sock *sk)
{
	struct nf *nf = nf_of(sk);

	nf->waits = CCBPF_CHIRP_WAIT_STORAGE;
	if (nf->refused)
		return 0;
	nf->refused = 1;
	flow_count(storage_refused);
	nf_event(sk, nf, CCBPF_EVENT_NO_STORAGE, sizeof(struct nf_probe), 0);
	return 0;
}

static __always_inline struct nf_probe *probe_new(struct sock *sk, struct nf *nf)
{
	struct range_params par;
	struct nf_probe *p;

	if (law_likely(nf->stored))
		return probe_of(sk);
	p = bpf_sk_storage_get(&nf_probes, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!p) {
		probe_refused(sk);
		return NULL;
	}
	probe_params(sk, &par);
	range_init(&p->range, &par);
	nf->stored = 1;
	return p;
}

/* --- what it means ----------------------------------------------------- */

/* The estimate is void: no more than this rate was available. */
static __noinline int probe_void(struct sock *sk, u32 most_kbps)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf->stored ? probe_of(sk) : NULL;

	nf->credit = 0;
	nf->share_q8 = NF_SHARE_ONE;
	nf->target = 0;
	nf->estimated = 0;
	if (p)
		range_congested(&p->range, most_kbps);
	return 0;
}

/* A loss while the window was below an estimate's target: the estimate was wrong, or forged. */
static __noinline int probe_doubt(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf->stored ? probe_of(sk) : NULL;

	if (!p)
		return 0;
	range_doubt(&p->range);
	nf->due_us = tcp_of(sk)->tcp_mstamp + range_doubt_us(&p->range, nf_base_us(nf));
	return 0;
}

/* The window has reached the target. */
static __noinline int probe_reached(struct sock *sk)
{
	struct nf *nf = nf_of(sk);
	struct nf_probe *p = nf->stored ? probe_of(sk) : NULL;

	nf->doubted = 0;
	if (p)
		range_reached(&p->range);
	return 0;
}

/* Compute what an ACK adds from BW_est; without an estimate it stays as it is. */
static __always_inline void probe_refresh(struct sock *sk, struct nf *nf, struct nf_probe *p)
{
	u32 bw_kbps = range_bw_kbps(&p->range), base_us = nf_base_us(nf);
	u32 bytes = chirp_packet_bytes(sk);

	if (!bw_kbps)
		return;
	nf->share_q8 = nf_share_q8(param_alpha(), bw_kbps, base_us, bytes);
	nf->target = nf_target(bw_kbps, base_us, bytes);
	nf->estimated = 1;
}

/* An estimate that is more than a bound ends slow start. The part of the window above its
 * target is a queue that this slow start has caused. */
static __always_inline void probe_ends_slow_start(struct sock *sk, struct nf *nf,
						  struct nf_probe *p)
{
	struct tcp_sock *tp = tcp_of(sk);
	u32 window = loan_window(tp, &nf->loan);

	if (nf->avoiding || p->range.searching || p->estimate.verdict == KNEE_ABOVE)
		return;
	if (nf->estimated && nf->target < window)
		window = law_max(nf->target, NF_LEAST);
	nf_leave_slow_start(sk, window);
}

/* --- publish ------------------------------------------------------------ */

static __always_inline void probe_fill(struct nf_probe *p, u32 now_kius, struct ccbpf_flow_nf *own)
{
	u32 steps = range_next_steps(&p->range);

	own->probe_bytes = p->bytes;
	own->estimate_kbps = range_bw_kbps(&p->range);
	if (p->range.at_kius)
		own->estimate_age_ms =
			((u64)range_age_kius(&p->range, now_kius) << KIUS_SHIFT) / 1000;
	own->chirps_sent = p->sent;
	own->chirps_complete = p->complete;
	own->chirps_discarded = p->discarded;
	own->chirps_why = p->why;
	own->range_min_kbps = range_next_min_kbps(&p->range);
	own->range_max_kbps = chirp_max_kbps(own->range_min_kbps, param_spread(), steps);
}

#endif
