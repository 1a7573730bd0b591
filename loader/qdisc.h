/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A network device and its queueing disciplines, asked of the kernel by
 * rtnetlink in the network namespace of this process.
 */
#ifndef CCBPF_QDISC_H
#define CCBPF_QDISC_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_QDISCS 128 /* of one device: what more there is is not seen */

struct device {
	char name[16]; /* IFNAMSIZ */
	uint32_t ifindex;
	uint32_t netns; /* inode of its network namespace: ours */
	uint32_t packet_bytes; /* MTU and link header */
	uint64_t rate_bps; /* of the link, bit/s; 0: not known */
};

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

/* Find a device by its name. Returns 0 or -errno: ENODEV. */
int device_find(const char *name, struct device *out);

/* The name that an ifindex has in this namespace now, or NULL. */
const char *device_name(uint32_t ifindex);

/* inode of this process's network namespace */
uint32_t device_netns(void);

/* All qdiscs of a device, also those that tc does not show. Returns 0 or -errno. */
int qdiscs_read(uint32_t ifindex, struct qdiscs *out);

/* The one directly under `parent` (TC_H_ROOT: the root), or NULL. */
const struct qdisc *qdisc_under(const struct qdiscs *all, uint32_t parent);

/* bit/s: what an htb class may send at the most; 0: not known. */
uint64_t class_rate_bps(uint32_t ifindex, uint32_t classid);

/* Filters at the device's clsact, in and out. Returns how many, or -errno. */
int filters_count(uint32_t ifindex);

#endif
