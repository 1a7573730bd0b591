// SPDX-License-Identifier: GPL-2.0-only
/* The records of the map `flows`: see flows.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

#include "cc/flows.h"
#include "ccbpf/identity.h"
#include "util/memory.h"

#define BATCH \
	4096 /* records in a system call: 1 MB, and more than any bucket of \
		the hash table holds */

/* Room for one more batch, and the records of a batch into place. */
struct collector {
	struct flow *flows;
	size_t n, size;
};

static void collect(struct collector *to, const __u64 *keys, const struct ccbpf_flow *records,
		    __u32 count)
{
	if (to->n + count > to->size) {
		to->size = 2 * to->size + count;
		to->flows = must_grow(to->flows, to->size * sizeof(*to->flows));
	}
	for (__u32 i = 0; i < count; i++) {
		to->flows[to->n].key = keys[i];
		to->flows[to->n++].record = records[i];
	}
}

static int read_batches(int fd, struct collector *to, __u64 *keys, struct ccbpf_flow *records)
{
	__u32 position = 0;
	bool first = true;

	for (;;) {
		__u32 count = BATCH;
		int err = bpf_map_lookup_batch(fd, first ? NULL : &position, &position, keys,
					       records, &count, NULL);

		if (err && err != -ENOENT)
			return err;
		collect(to, keys, records, count);
		if (err)
			return 0; /* ENOENT: that was the last batch */
		first = false;
	}
}

/*
 * For kernels without batches. A deletion meanwhile may start the walk anew:
 * bounded by twice the map's size.
 */
static int read_singly(int fd, struct collector *to)
{
	struct ccbpf_flow record;
	__u64 key, *previous = NULL;

	to->n = 0;
	for (size_t i = 0; i < 2 * CCBPF_FLOWS_MAX; i++) {
		if (bpf_map_get_next_key(fd, previous, &key))
			return errno == ENOENT ? 0 : -errno;
		previous = &key;
		if (bpf_map_lookup_elem(fd, &key, &record) == 0)
			collect(to, &key, &record, 1);
	}
	return 0;
}

int flows_read(int fd, struct flow **flows, size_t *n)
{
	struct ccbpf_flow *records = must_alloc(BATCH, sizeof(*records));
	__u64 *keys = must_alloc(BATCH, sizeof(*keys));
	struct collector to = { 0 };
	int err = read_batches(fd, &to, keys, records);

	if (err)
		err = read_singly(fd, &to);
	free(records);
	free(keys);
	*flows = to.flows;
	*n = to.n;
	return err;
}

struct flow_counts flows_count(const struct flow *flows, size_t n, const struct controller *c,
			       __u64 instance)
{
	struct flow_counts counts = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (flows[i].record.kind != (__u32)c->kind)
			continue;
		if (instance && flows[i].record.instance == instance)
			counts.now++;
		else
			counts.draining++;
	}
	return counts;
}
