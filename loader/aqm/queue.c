// SPDX-License-Identifier: GPL-2.0-only
/* The queue of a device: see queue.h. */
#include <linux/pkt_sched.h>
#include <stdio.h>
#include <string.h>

#include "aqm/queue.h"
#include "out/errors.h"
#include "util/text.h"

static uint64_t limit_of(const struct qdisc *q, const struct device *device)
{
	return (uint64_t)q->limit * (q->limit_in_packets ? device->packet_bytes : 1);
}

static bool is_child(const struct qdisc *q, const struct qdisc *parent)
{
	return q != parent && q->parent != TC_H_ROOT &&
	       TC_H_MAJ(q->parent) == TC_H_MAJ(parent->handle);
}

/* mq: the sum over its children, if all of them have one. */
static uint64_t limit_of_children(const struct qdiscs *all, const struct qdisc *mq,
				  const struct device *device)
{
	uint64_t sum = 0, its;

	for (unsigned int i = 0; i < all->n; i++) {
		const struct qdisc *q = &all->q[i];

		if (!is_child(q, mq))
			continue;
		its = limit_of(q, device);
		if (!its)
			return 0;
		sum += its;
	}
	return sum;
}

/* htb: the class without which nothing is queued. */
static uint32_t only_class(const struct qdiscs *all, const struct qdisc *htb)
{
	const struct qdisc *found = NULL;

	if (htb->default_class && qdisc_under(all, htb->default_class))
		return htb->default_class;
	for (unsigned int i = 0; i < all->n; i++) {
		if (!is_child(&all->q[i], htb))
			continue;
		if (found)
			return 0;
		found = &all->q[i];
	}
	return found ? found->parent : 0;
}

/* The kernel does not count what waits in a queue without a lock: pfifo_fast, as
 * the root or under mq. */
static bool is_lock_free(const struct qdiscs *all, const struct qdisc *root)
{
	bool is_mq = strcmp(root->kind, "mq") == 0;

	for (unsigned int i = 0; i < all->n; i++) {
		const struct qdisc *q = &all->q[i];

		if ((q == root || (is_mq && is_child(q, root))) &&
		    strcmp(q->kind, "pfifo_fast") == 0)
			return true;
	}
	return false;
}

static void look_at_class(const struct device *device, const struct qdiscs *all, uint32_t classid,
			  struct aqm_queue *out)
{
	const struct qdisc *leaf = qdisc_under(all, classid);

	if (out->leaf) {
		out->backlog_bytes = leaf ? leaf->backlog_bytes : 0;
		snprintf(out->kind, sizeof(out->kind), "%s", leaf ? leaf->kind : "");
	}
	if (!leaf)
		return;
	out->limit_bytes = limit_of(leaf, device);
	out->rate_bps = class_rate_bps(device->ifindex, classid);
}

void aqm_look_at_queue(const struct device *device, const struct qdiscs *all, uint32_t leaf,
		       struct aqm_queue *out)
{
	const struct qdisc *root = qdisc_under(all, TC_H_ROOT);

	*out = (struct aqm_queue){ .root = root, .leaf = leaf };
	if (!root)
		return;
	snprintf(out->kind, sizeof(out->kind), "%s", root->kind);
	out->lock_free = is_lock_free(all, root);
	out->backlog_bytes = root->backlog_bytes;
	if (leaf) {
		look_at_class(device, all, leaf, out);
	} else if (strcmp(root->kind, "htb") == 0) {
		look_at_class(device, all, only_class(all, root), out);
	} else if (strcmp(root->kind, "mq") == 0) {
		out->limit_bytes = limit_of_children(all, root, device);
	} else {
		out->limit_bytes = limit_of(root, device);
		out->rate_bps = root->rate_bps;
	}
	if (!out->rate_bps)
		out->rate_bps = device->rate_bps;
}

const char *aqm_classid(uint32_t classid)
{
	return text("%x:%x", classid >> 16, classid & 0xffff);
}

int aqm_find_queue(const char *what, const struct device *device, const struct qdiscs *all,
		   uint32_t leaf, struct aqm_queue *out)
{
	const char *remedy = text(
		"give it one that does: `tc qdisc replace dev %s root bfifo limit BYTES`, or tbf, htb",
		device->name);

	aqm_look_at_queue(device, all, leaf, out);
	if (!out->root || strcmp(out->kind, "noqueue") == 0)
		return FAIL(EXIT_FAILED, .what = what, .on = device->name,
			    .why = "it has no queue (noqueue): nothing ever waits there",
			    .remedy = remedy);
	if (out->lock_free)
		return FAIL(
			EXIT_FAILED, .what = what, .on = device->name,
			.why = "its queue, pfifo_fast, is lock-free, and its length cannot be read",
			.remedy = remedy);
	if (leaf && !qdisc_under(all, leaf))
		return FAIL(EXIT_FAILED, .what = what, .on = device->name,
			    .why = text("it has no queue under class %s", aqm_classid(leaf)),
			    .remedy = text("`tc qdisc show dev %s` shows them", device->name));
	return EXIT_OK;
}
