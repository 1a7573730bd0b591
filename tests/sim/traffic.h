/* SPDX-License-Identifier: GPL-2.0-only */
/* UDP beside the flows: constant, Poisson, or a square wave; all of it foreground. */
#ifndef CCBPF_SIM_TRAFFIC_H
#define CCBPF_SIM_TRAFFIC_H

#include "path.h"

struct stream {
	struct way *way;
	const u64 *delay_ns; /* one way */
	u32 bytes; /* of a frame */
	double per_s; /* frames while it sends */
	bool poisson;
	u64 period_ns; /* of a square wave; 0: it sends all the time */
	double duty; /* the first part of each period in which it sends */
	u64 start_ns, stop_ns;
	struct random random;
	u64 last_arrival_ns;
	u64 sent, received;
};

void stream_begin(struct stream *s);

#endif
