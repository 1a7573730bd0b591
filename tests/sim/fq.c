/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fq as the sender's qdisc: it holds a packet until its departure (net/sched/sch_fq.c), and TCP small queues limit how much
 * of a flow it holds (tcp_small_queue_check()). The kernel's internal pacing is off then.
 */
#include "flow.h"

#define HOLDS_LEAST 4 /* packets: two of TSO's pairs */

bool fq_paces(struct flow *f)
{
	return sock_of(f)->sk_pacing_status == FLOW_PACED_BY_FQ;
}

static void let_go(void *flow, void *packet)
{
	struct flow *f = flow;

	f->held_by_fq--;
	way_send(f->forward, packet);
	output_resume(f);
}

void fq_send(struct flow *f, struct packet *p)
{
	if (f->tp.tcp_wstamp_ns <= engine_now_ns) {
		way_send(f->forward, p);
		return;
	}
	f->held_by_fq++;
	engine_at(f->tp.tcp_wstamp_ns, let_go, f, p);
}

bool fq_is_full(struct flow *f)
{
	u64 most = (sock_of(f)->sk_pacing_rate >> PACING_SHIFT) / f->tp.mss_cache;

	return f->held_by_fq >= (most > HOLDS_LEAST ? most : HOLDS_LEAST);
}
