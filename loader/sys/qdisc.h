/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queueing disciplines of a device, its classes and filters, asked of the kernel
 * in the network namespace of this process.
 */
#ifndef CCBPF_QDISC_H
#define CCBPF_QDISC_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_QDISCS 128 /* of one device: what more there is is not seen */

struct qdisc {
	char kind[16];
	uint32_t handle, parent; /* parent: a classid, or TC_H_ROOT */
	uint32_t limit; /* bytes, or packets; 0: none that we know */
	bool limit_in_packets;
	uint64_t rate_bps; /* bit/s that it lets through; 0: not known */
	uint32_t default_class; /* of htb: classid, 0: none */
	uint32_t backlog_bytes; /* what waits now */
};

struct qdiscs {
	struct qdisc q[MOST_QDISCS];
	unsigned int n;
	bool clsact; /* filters have a place, in and out */
	bool ingress; /* instead of it: only in, whatever the filter says */
};

/* All qdiscs of a device, also those that tc does not show. Returns 0 or -errno. */
int qdiscs_read(uint32_t ifindex, struct qdiscs *out);

/* The one directly under `parent` (TC_H_ROOT: the root), or NULL. */
const struct qdisc *qdisc_under(const struct qdiscs *all, uint32_t parent);

/* bit/s: what an htb class may send at the most; 0: not known. */
uint64_t class_rate_bps(uint32_t ifindex, uint32_t classid);

/* Filters at the device's clsact, in and out. Returns how many, or -errno. */
int filters_count(uint32_t ifindex);

/*
 * The lowest priority, which comes first, of the filters at one side of its clsact that
 * hold this BPF program; program_id 0: of any filter. 0: there is none.
 */
uint32_t filter_priority(uint32_t ifindex, bool ingress, uint32_t program_id);

#endif
