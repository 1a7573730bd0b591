// SPDX-License-Identifier: GPL-2.0-only
/* The maps that all controllers share: see shared.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "output.h"
#include "pins.h"
#include "shared.h"

#include "ccbpf/event.h"

#define BATCH \
	4096 /* records in a system call: 1 MB, and more than any bucket of \
		the hash table holds */

static const struct {
	const char *name;
	struct map_shape shape;
} maps[SHARED_MAPS] = {
	[SHARED_FLOWS] = { "flows",
			   { BPF_MAP_TYPE_HASH, sizeof(__u64),
			     sizeof(struct ccbpf_flow), 0 } },
	[SHARED_EVENTS] = { "events", { BPF_MAP_TYPE_RINGBUF, 0, 0, 0 } },
	[SHARED_STATS] = { "stats",
			   { BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(__u32),
			     sizeof(struct ccbpf_stats), CCBPF_KINDS } },
	[SHARED_LISTENER] = { "listener",
			      { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
				sizeof(__u64), 1 } },
};

const char *shared_name(enum shared map)
{
	return maps[map].name;
}

int shared_open(const char *what, enum shared map, int *fd)
{
	const char *path = pin_path(maps[map].name, NULL);

	*fd = pin_open_map(path, &maps[map].shape);
	if (*fd >= 0)
		return EXIT_OK;
	if (*fd != -ENOENT)
		return pin_unusable(what, path, *fd);
	*fd = -1;
	return EXIT_OK;
}

int shared_adopt(const char *what, struct bpf_object *obj)
{
	for (int i = 0; i < SHARED_MAPS; i++) {
		struct bpf_map *map =
			bpf_object__find_map_by_name(obj, maps[i].name);
		int err, fd;

		if (!map)
			return FAIL(EXIT_FAILED, .what = what,
				    .on = bpf_object__name(obj),
				    .why = text("the object has no map `%s`",
						maps[i].name),
				    .remedy = "build ccbpf anew");
		err = shared_open(what, i, &fd);
		if (err)
			return err;
		if (fd < 0)
			continue;
		err = bpf_map__reuse_fd(map, fd);
		close(fd); /* libbpf made its own copy */
		if (err)
			return fail_errno(what, pin_path(maps[i].name, NULL),
					  err);
	}
	return EXIT_OK;
}

int shared_pin(const char *what, struct bpf_object *obj)
{
	for (int i = 0; i < SHARED_MAPS; i++) {
		struct bpf_map *map =
			bpf_object__find_map_by_name(obj, maps[i].name);
		const char *path = pin_path(maps[i].name, NULL);
		int err = pin_exists(path)
				  ? EXIT_OK
				  : pin_make(what, bpf_map__fd(map), path);

		if (err)
			return err;
	}
	return EXIT_OK;
}

int shared_remove(void)
{
	int last = 0;

	for (int i = 0; i < SHARED_MAPS; i++) {
		int err = pin_remove(pin_path(maps[i].name, NULL));

		last = err ?: last;
	}
	return last;
}

/* Room for one more batch, and the records of a batch into place. */
struct collector {
	struct flow *flows;
	size_t n, size;
};

static void collect(struct collector *to, const __u64 *keys,
		    const struct ccbpf_flow *records, __u32 count)
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

static int read_batches(int fd, struct collector *to, __u64 *keys,
			struct ccbpf_flow *records)
{
	__u32 position = 0;
	bool first = true;

	for (;;) {
		__u32 count = BATCH;
		int err = bpf_map_lookup_batch(fd, first ? NULL : &position,
					       &position, keys, records, &count,
					       NULL);

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

struct flow_counts flows_count(const struct flow *flows, size_t n,
			       const struct controller *c, __u64 instance)
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

int stats_read(int fd, const struct controller *c, struct ccbpf_stats *sum)
{
	int cpus = libbpf_num_possible_cpus();
	__u32 key = c->kind;
	struct ccbpf_stats *each;
	int err;

	memset(sum, 0, sizeof(*sum));
	if (cpus < 0)
		return cpus;
	each = must_alloc(cpus, sizeof(*each));
	err = bpf_map_lookup_elem(fd, &key, each) ? -errno : 0;
	for (int i = 0; !err && i < cpus; i++) {
#define X(name, text) sum->name += each[i].name;
		CCBPF_STATS(X)
#undef X
	}
	free(each);
	return err;
}

struct json_object *stats_json(const struct ccbpf_stats *stats)
{
	struct json_object *doc = json_object_new_object();

#define X(name, text) add_number(doc, #name, stats->name);
	CCBPF_STATS(X)
#undef X
	return doc;
}
