// SPDX-License-Identifier: GPL-2.0-only
/* The queueing disciplines of a device: see qdisc.h. */
#include <linux/gen_stats.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <stdio.h>
#include <string.h>

#include "sys/netlink.h"
#include "sys/qdisc.h"

static void read_tbf(const struct nlattr *options, struct qdisc *q)
{
	const struct nlattr *at[NETLINK_TYPES];
	struct tc_tbf_qopt tbf;
	uint64_t rate;

	netlink_parse_nest(options, at);
	if (!netlink_take(at[TCA_TBF_PARMS], &tbf, sizeof(tbf)))
		return;
	rate = tbf.rate.rate;
	netlink_take(at[TCA_TBF_RATE64], &rate, sizeof(rate));
	q->limit = tbf.limit;
	q->rate_bps = rate * 8;
}

static void read_htb(const struct nlattr *options, struct qdisc *q)
{
	const struct nlattr *at[NETLINK_TYPES];
	struct tc_htb_glob htb;

	netlink_parse_nest(options, at);
	if (netlink_take(at[TCA_HTB_INIT], &htb, sizeof(htb)) && htb.defcls)
		q->default_class = TC_H_MAKE(q->handle, htb.defcls);
}

static void read_fifo(const struct nlattr *options, struct qdisc *q)
{
	struct tc_fifo_qopt fifo;

	if (netlink_take(options, &fifo, sizeof(fifo)))
		q->limit = fifo.limit;
	q->limit_in_packets = *q->kind == 'p';
}

static void read_stats(const struct nlattr *stats, struct qdisc *q)
{
	const struct nlattr *at[NETLINK_TYPES];
	struct gnet_stats_queue queue;

	netlink_parse_nest(stats, at);
	if (netlink_take(at[TCA_STATS_QUEUE], &queue, sizeof(queue)))
		q->backlog_bytes = queue.backlog;
}

static const struct {
	const char *kind;
	void (*read)(const struct nlattr *options, struct qdisc *q);
} readers[] = {
	{ "tbf", read_tbf },
	{ "htb", read_htb },
	{ "bfifo", read_fifo },
	{ "pfifo", read_fifo },
	{ "pfifo_head_drop", read_fifo },
};

struct gathering {
	struct qdiscs *all;
	uint32_t ifindex;
};

static void add_qdisc(const struct tcmsg *tc, const struct nlattr **at, void *data)
{
	const char *kind = netlink_string(at[TCA_KIND]);
	struct gathering *to = data;
	struct qdisc *q;

	if ((uint32_t)tc->tcm_ifindex != to->ifindex || !*kind)
		return;
	if (tc->tcm_parent == TC_H_CLSACT) { /* no queue */
		to->all->ingress = !strcmp(kind, "ingress");
		to->all->clsact = !to->all->ingress;
		return;
	}
	if (to->all->n == MOST_QDISCS)
		return;
	q = &to->all->q[to->all->n++];
	*q = (struct qdisc){ .handle = tc->tcm_handle, .parent = tc->tcm_parent };
	snprintf(q->kind, sizeof(q->kind), "%s", kind);
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
		if (strcmp(readers[i].kind, q->kind) == 0)
			readers[i].read(at[TCA_OPTIONS], q);
	read_stats(at[TCA_STATS2], q);
}

int qdiscs_read(uint32_t ifindex, struct qdiscs *out)
{
	out->n = 0;
	out->clsact = out->ingress = false;
	return netlink_dump(RTM_GETQDISC, ifindex, 0, add_qdisc,
			    &(struct gathering){ out, ifindex });
}

const struct qdisc *qdisc_under(const struct qdiscs *all, uint32_t parent)
{
	for (unsigned int i = 0; i < all->n; i++)
		if (all->q[i].parent == parent)
			return &all->q[i];
	return NULL;
}

struct class_question {
	uint32_t classid;
	uint64_t rate_bps;
};

static void take_class(const struct tcmsg *tc, const struct nlattr **at, void *data)
{
	struct class_question *asked = data;
	const struct nlattr *own[NETLINK_TYPES];
	struct tc_htb_opt htb;
	uint64_t rate;

	if (tc->tcm_handle != asked->classid)
		return;
	netlink_parse_nest(at[TCA_OPTIONS], own);
	if (!netlink_take(own[TCA_HTB_PARMS], &htb, sizeof(htb)))
		return;
	rate = htb.ceil.rate;
	netlink_take(own[TCA_HTB_CEIL64], &rate, sizeof(rate));
	asked->rate_bps = rate * 8;
}

uint64_t class_rate_bps(uint32_t ifindex, uint32_t classid)
{
	struct class_question asked = { .classid = classid };

	return netlink_dump(RTM_GETTCLASS, ifindex, 0, take_class, &asked) ? 0 : asked.rate_bps;
}

static void count_filter(const struct tcmsg *tc, const struct nlattr **at, void *data)
{
	int *n = data;

	(void)at;
	*n += tc->tcm_handle != 0; /* without one: the priority's own row */
}

int filters_count(uint32_t ifindex)
{
	static const uint32_t sides[] = { TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS),
					  TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS) };
	int n = 0, err = 0;

	for (int i = 0; !err && i < 2; i++)
		err = netlink_dump(RTM_GETTFILTER, ifindex, sides[i], count_filter, &n);
	return err ?: n;
}

struct filter_question {
	uint32_t program_id, priority;
};

static void take_filter(const struct tcmsg *tc, const struct nlattr **at, void *data)
{
	struct filter_question *asked = data;
	const struct nlattr *own[NETLINK_TYPES];
	uint32_t priority = TC_H_MAJ(tc->tcm_info) >> 16, program_id = 0;

	if (!tc->tcm_handle)
		return;
	if (!strcmp(netlink_string(at[TCA_KIND]), "bpf")) {
		netlink_parse_nest(at[TCA_OPTIONS], own);
		netlink_take(own[TCA_BPF_ID], &program_id, sizeof(program_id));
	}
	if (asked->program_id && asked->program_id != program_id)
		return;
	if (!asked->priority || priority < asked->priority)
		asked->priority = priority;
}

uint32_t filter_priority(uint32_t ifindex, bool ingress, uint32_t program_id)
{
	struct filter_question asked = { .program_id = program_id };
	uint32_t side = TC_H_MAKE(TC_H_CLSACT, ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS);

	if (netlink_dump(RTM_GETTFILTER, ifindex, side, take_filter, &asked))
		return 0;
	return asked.priority;
}
