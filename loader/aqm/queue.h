/* SPDX-License-Identifier: GPL-2.0-only */
/* The queue of a device that nf_red looks at: which one, and what it says of itself. */
#ifndef CCBPF_AQM_QUEUE_H
#define CCBPF_AQM_QUEUE_H

#include "sys/device.h"
#include "sys/qdisc.h"

/* Which queue of the device is read, and what it says of itself. */
struct aqm_queue {
	const struct qdisc *root; /* NULL: none that can be seen (noqueue) */
	char kind[16]; /* "": there is none, or not under that class */
	bool lock_free; /* or a child of it: nf_red finds it empty, always */
	uint32_t leaf; /* classid, 0: the root's */
	uint64_t limit_bytes; /* 0: not known */
	uint64_t rate_bps; /* bit/s, 0: not known */
	uint32_t backlog_bytes; /* now */
};

/*
 * Look at the device's qdiscs. `leaf`: of a class, 0: the root's. Returns
 * EXIT_OK, or the exit code after saying why that queue cannot be read.
 */
int aqm_find_queue(const char *what, const struct device *device, const struct qdiscs *all,
		   uint32_t leaf, struct aqm_queue *out);

/* The same, as far as it can be told, saying nothing. */
void aqm_look_at_queue(const struct device *device, const struct qdiscs *all, uint32_t leaf,
		       struct aqm_queue *out);

/* "1:10" */
const char *aqm_classid(uint32_t classid);

#endif
