// SPDX-License-Identifier: GPL-2.0-only
/* Who holds the sockets: see held.h. */
#include <bpf/bpf.h>
#include <stdlib.h>
#include <unistd.h>

#include "ccbpf/rule.h"
#include "sys/held.h"
#include "sys/objects.h"
#include "sys/records.h"
#include "util/memory.h"

static void add(struct held *held, uint64_t flow, const struct ccbpf_held_record *r)
{
	/* Doubled whenever its number is a power of two. */
	if (!(held->n & (held->n - 1)))
		held->all = must_grow(held->all, (2 * held->n + 1) * sizeof(*held->all));
	held->all[held->n++] = (struct held_socket){ flow, r->pid };
}

/* A socket may have two records: of what it sends, and of what it receives. */
static void collect(void *data, const void *record)
{
	const struct ccbpf_held_record *r = record;

	add(data, r->flow, r);
	if (r->cookie)
		add(data, r->cookie, r);
}

static int by_flow(const void *a, const void *b)
{
	const struct held_socket *x = a, *y = b;

	if (x->flow != y->flow)
		return x->flow < y->flow ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* A process may hold a socket by several descriptors. */
static void sort(struct held *held)
{
	size_t kept = 0;

	if (held->n)
		qsort(held->all, held->n, sizeof(*held->all), by_flow);
	for (size_t i = 0; i < held->n; i++)
		if (!kept || by_flow(&held->all[kept - 1], &held->all[i]))
			held->all[kept++] = held->all[i];
	held->n = kept;
}

/* The iterator; it lives as long as the link. NULL: the kernel has none. */
static struct bpf_link *attach(void)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "held");
	struct bpf_object *obj = bpf_object__open_mem(
		ccbpf_object_held, ccbpf_object_held_end - ccbpf_object_held, &opts);
	struct bpf_link *link = NULL;

	if (obj && !bpf_object__load(obj))
		link = bpf_program__attach_iter(bpf_object__next_program(obj, NULL), NULL);
	bpf_object__close(obj);
	return link;
}

struct held held_read(void)
{
	static struct bpf_link *link; /* for each look of this process */
	static bool tried;
	struct held held = { 0 };
	int fd;

	if (!tried)
		link = attach();
	tried = true;
	fd = link ? bpf_iter_create(bpf_link__fd(link)) : -1;
	if (fd < 0)
		return held;
	records_read(fd, sizeof(struct ccbpf_held_record), collect, &held);
	close(fd);
	sort(&held);
	return held;
}

void held_free(struct held *held)
{
	free(held->all);
	*held = (struct held){ 0 };
}

const struct held_socket *held_of(const struct held *held, uint64_t flow, size_t *n)
{
	size_t low = 0, high = held->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (held->all[middle].flow < flow)
			low = middle + 1;
		else
			high = middle;
	}
	*n = 0;
	while (low + *n < held->n && held->all[low + *n].flow == flow)
		(*n)++;
	return *n ? &held->all[low] : NULL;
}
