/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What downloads have done, those that have ended included: kern/totals.bpf.h is the same for the flows of a
 * controller. A download's part is added whenever its record is written, and when it ends. Without a
 * record, because `flows` is full, it is not counted.
 *
 * It only adds up, as that one does.
 */
#ifndef CCBPF_KERN_DOWNLOAD_TOTALS_BPF_H
#define CCBPF_KERN_DOWNLOAD_TOTALS_BPF_H

#include "kern/flows.bpf.h"
#include "kern/life.bpf.h"
#include "kern/totals_maps.bpf.h"

static __always_inline struct totals_of totals_of_download(const struct ccbpf_flow *f)
{
	return totals_find(CCBPF_KIND_rx_le, f->life.cgroup, f->life.rule);
}

/* Its record @f is new. */
static __always_inline void totals_begun(const struct ccbpf_flow *f)
{
	struct totals_of to = totals_of_download(f);

	TOTALS_ADD(to, flows, 1);
}

/* What it did since its record @f was written: until @now_ns @bytes were received in all, and it
 * reacted as often as the others say. The record says so from now on. Another CPU may have written a newer
 * one: then the differences are negative. */
static __always_inline void totals_received(struct ccbpf_flow *f, u64 now_ns, u64 bytes, u32 drains,
					    u32 yields, u32 losses)
{
	u64 new_bytes = bytes - f->bytes_acked;
	struct life_step step = life_step(f, now_ns, new_bytes);
	struct totals_of to = totals_of_download(f);

	TOTALS_ADD(to, bytes_acked, new_bytes);
	TOTALS_ADD(to, indications, (s32)(drains + yields - f->indications));
	TOTALS_ADD(to, cuts_to_one, (s32)(yields - f->cuts_to_one));
	TOTALS_ADD(to, losses, (s32)(losses - f->losses));
	TOTALS_ADD(to, sending_ns, step.sending_ns);
	TOTALS_ADD(to, yielded_ns, step.yielded_ns);
	f->updated_ns = now_ns;
	f->bytes_acked = bytes;
	f->indications = drains + yields;
	f->cuts_to_one = yields;
	f->losses = losses;
}

/* The same, where the record is looked up by its key: it goes, or its connection is about to end. */
static __always_inline void totals_ended(u64 key, u64 now_ns, u64 bytes, u32 drains, u32 yields,
					 u32 losses)
{
	struct ccbpf_flow *f = bpf_map_lookup_elem(&flows, &key);

	if (f)
		totals_received(f, now_ns, bytes, drains, yields, losses);
}

#endif
