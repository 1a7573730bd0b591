/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a host's own downloads (kern/receive.bpf.h) and those of others at a gateway (bpf/gateway.bpf.c)
 * have in common.
 */
#ifndef CCBPF_KERN_DOWNLOAD_BPF_H
#define CCBPF_KERN_DOWNLOAD_BPF_H

#include "kern/flows.bpf.h"
#include "law/rx_window.h"

#define LEAST_BYTES 3000 /* two segments: what brings less is no download */
#define PUBLISH_US 9216 /* as kern/flow.bpf.h: 9 units of 1024 us */
#define GAP_MOST_US 2000000 /* more is a pause of the application, or of the sender */

static __always_inline enum ccbpf_phase phase_of(const struct rx *x)
{
	if (!x->avoiding)
		return CCBPF_PHASE_SLOW_START;
	if (x->hole)
		return CCBPF_PHASE_RECOVERY;
	if (rx_small(x))
		return CCBPF_PHASE_SMALL;
	return x->law.stage == LE_FREE ? CCBPF_PHASE_AVOIDANCE : CCBPF_PHASE_INFERENCE;
}

#endif
