/* SPDX-License-Identifier: GPL-2.0-only */
/* A flow whose receiver is under `ccbpf run --download`, or has a peer's law in the place of ours. */
#ifndef CCBPF_SIM_DOWNLOAD_H
#define CCBPF_SIM_DOWNLOAD_H

#include "flow.h"

/* The flow's receiver holds its window from now on; before flow_start(). @law: "", which is ours, or "rledbatpp"; exits
 * with the reason where it is neither. */
void download_begin(struct flow *f, const char *law);

/* An ACK is about to be sent; @fresh: it answers the newest packet at once. @our_ts: its TSval. */
void download_ack(struct flow *f, u32 our_ts, bool fresh);

/* Does reading make an ACK, because the window opens? */
bool download_opens(const struct flow *f);

/* segments, from rcv_nxt on */
u32 download_advertised(const struct flow *f);

#endif
