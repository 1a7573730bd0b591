// SPDX-License-Identifier: GPL-2.0-only
/* Who gave a connection its controller: see origins.h. */
#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rules/origins.h"
#include "rules/units.h"
#include "sys/objects.h"
#include "sys/records.h"
#include "util/memory.h"

/* One map's walk. */
struct walk {
	struct origins *to;
	bool receives; /* the map is of receive windows, whose records have another key */
	enum origin_by by;
	unsigned int id; /* of the run; a rule's is in the record */
};

static void collect(void *data, const void *record)
{
	const struct ccbpf_chosen_record *r = record;
	const struct walk *walk = data;
	struct origins *to = walk->to;

	/* Doubled whenever its number is a power of two. */
	if (!(to->n & (to->n - 1)))
		to->all = must_grow(to->all, (2 * to->n + 1) * sizeof(*to->all));
	to->all[to->n++] = (struct origin){
		.flow = walk->receives ? r->cookie : r->flow,
		.cgroup = r->cgroup,
		.inode = r->inode,
		.by = walk->by,
		.id = walk->by == ORIGIN_RULE ? r->rule : walk->id,
	};
}

/* The iterator, loaded when the first map is walked. */
static struct bpf_program *load(struct bpf_object **obj)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "chosen");
	size_t size = ccbpf_object_chosen_end - ccbpf_object_chosen;

	if (!*obj)
		*obj = bpf_object__open_mem(ccbpf_object_chosen, size, &opts);
	if (!*obj)
		return NULL;
	if (bpf_program__fd(bpf_object__next_program(*obj, NULL)) < 0 && bpf_object__load(*obj))
		return NULL;
	return bpf_object__next_program(*obj, NULL);
}

static void walk_map(struct bpf_object **obj, int map_fd, struct walk *walk)
{
	union bpf_iter_link_info info = { .map.map_fd = map_fd };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_program *program = map_fd < 0 ? NULL : load(obj);
	struct bpf_link *link = program ? bpf_program__attach_iter(program, &opts) : NULL;
	int fd = link ? bpf_iter_create(bpf_link__fd(link)) : -1;

	if (fd >= 0) {
		records_read(fd, sizeof(struct ccbpf_chosen_record), collect, walk);
		close(fd);
	}
	bpf_link__destroy(link);
}

static int by_flow(const void *a, const void *b)
{
	const struct origin *x = a, *y = b;

	return x->flow < y->flow ? -1 : x->flow > y->flow;
}

/* The storages of one giver: of those that got a controller, and of those that receive. */
static void walk_both(struct bpf_object **obj, int chosen_fd, int receives_fd, struct walk walk)
{
	walk_map(obj, chosen_fd, &walk);
	walk.receives = true;
	walk_map(obj, receives_fd, &walk);
}

static void walk_run(struct bpf_object **obj, unsigned int id, struct origins *out)
{
	int chosen = run_open_chosen(id), receives = run_open_receives(id);

	walk_both(obj, chosen, receives, (struct walk){ .to = out, .by = ORIGIN_RUN, .id = id });
	if (chosen >= 0)
		close(chosen);
	if (receives >= 0)
		close(receives);
}

void origins_read(struct origins *out)
{
	struct bpf_object *obj = NULL;
	struct unit_program *units;
	unsigned int n_units;

	*out = (struct origins){ 0 };
	if (!standing_read_quietly(&out->standing))
		walk_both(&obj, out->standing.chosen_fd, out->standing.receives_fd,
			  (struct walk){ .to = out, .by = ORIGIN_RULE });
	out->n_runs = runs_read(&out->runs);
	for (unsigned int i = 0; i < out->n_runs; i++)
		walk_run(&obj, out->runs[i].id, out);
	n_units = units_read(&units);
	for (unsigned int i = 0; i < n_units; i++)
		walk_both(&obj, units[i].chosen_fd, units[i].receives_fd,
			  (struct walk){ .to = out, .by = ORIGIN_UNIT });
	units_free(units, n_units);
	bpf_object__close(obj);
	if (out->n)
		qsort(out->all, out->n, sizeof(*out->all), by_flow);
}

void origins_free(struct origins *origins)
{
	free(origins->all);
	free(origins->runs);
	standing_close(&origins->standing);
	holders_free(&origins->holders);
	*origins = (struct origins){ 0 };
}

const struct origin *origins_of(const struct origins *origins, uint64_t flow)
{
	const struct origin key = { .flow = flow };

	return origins->n ? bsearch(&key, origins->all, origins->n, sizeof(key), by_flow) : NULL;
}

int origin_by_giver(const void *a, const void *b)
{
	const struct origin *x = a, *y = b;

	if (x->by != y->by)
		return x->by < y->by ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}
