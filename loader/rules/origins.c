// SPDX-License-Identifier: GPL-2.0-only
/* Who gave a connection its controller: see origins.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rules/moved.h"
#include "rules/origins.h"
#include "rules/remembered.h"
#include "rules/units.h"
#include "util/memory.h"

/* Of one giver: the map of those that got a controller, or of those that receive. */
struct giver {
	struct remembered map;
	struct origins *to;
	bool receives; /* their records have another key */
	enum origin_by by;
	unsigned int id; /* of the run; a rule's is in the record */
	const char *controller; /* that it gives */
};

struct givers {
	struct giver *all;
	size_t n;
};

static void collect(const struct remembered *map, const struct ccbpf_chosen_record *r)
{
	const struct giver *giver = (const struct giver *)map; /* its first member */
	struct origins *to = giver->to;

	/* Doubled whenever its number is a power of two. */
	if (!(to->n & (to->n - 1)))
		to->all = must_grow(to->all, (2 * to->n + 1) * sizeof(*to->all));
	to->all[to->n] = (struct origin){
		.flow = giver->receives ? r->cookie : r->flow,
		.by = giver->by,
		.id = giver->by == ORIGIN_RULE ? r->rule : giver->id,
	};
	if (!giver->receives)
		snprintf(to->all[to->n].controller, CCBPF_NAME_LEN, "%s", giver->controller);
	to->n++;
}

static int by_flow(const void *a, const void *b)
{
	const struct origin *x = a, *y = b;

	return x->flow < y->flow ? -1 : x->flow > y->flow;
}

/* A giver's two maps, whose descriptors are taken over; negative: there is none. */
static void add(struct givers *givers, int chosen_fd, int receives_fd, struct giver giver)
{
	const int fds[] = { chosen_fd, receives_fd };

	for (int i = 0; i < 2; i++) {
		if (fds[i] < 0)
			continue;
		giver.map.fd = fds[i];
		giver.receives = i;
		givers->all = must_grow(givers->all, (givers->n + 1) * sizeof(*givers->all));
		givers->all[givers->n++] = giver;
	}
}

static int copy_of(int fd)
{
	return fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* All that a socket is there for twice: the kernel may say it twice. */
static void sort(struct origins *origins)
{
	size_t kept = 0;

	if (origins->n)
		qsort(origins->all, origins->n, sizeof(*origins->all), by_flow);
	for (size_t i = 0; i < origins->n; i++)
		if (!kept || origins->all[kept - 1].flow != origins->all[i].flow ||
		    origin_by_giver(&origins->all[kept - 1], &origins->all[i]))
			origins->all[kept++] = origins->all[i];
	origins->n = kept;
}

/* The records of a gateway's connections say by their keys whose they are: there are no sockets here. */
static void read_gateways(struct origins *out)
{
	out->n_gateways = gateway_names(&out->gateways);
	out->by_gateway = must_alloc(out->n_gateways ?: 1, sizeof(*out->by_gateway));
	for (unsigned int i = 0; i < out->n_gateways; i++)
		out->by_gateway[i] =
			(struct origin){ .by = ORIGIN_GATEWAY, .device = out->gateways[i].device };
}

static const struct origin *gateway_of(const struct origins *origins, uint64_t flow)
{
	for (unsigned int i = 0; i < origins->n_gateways; i++)
		if (gateway_instance_of(flow) == origins->gateways[i].instance)
			return &origins->by_gateway[i];
	return NULL;
}

void origins_read(struct origins *out)
{
	struct givers givers = { 0 };
	struct unit_program *units;
	struct moved moved;
	unsigned int n_units;

	*out = (struct origins){ 0 };
	if (!standing_read_quietly(&out->standing))
		add(&givers, -1, copy_of(out->standing.receives_fd),
		    (struct giver){ .to = out, .by = ORIGIN_RULE });
	out->n_runs = runs_read(&out->runs);
	for (unsigned int i = 0; i < out->n_runs; i++) {
		unsigned int id = out->runs[i].id;

		add(&givers, run_open_chosen(id), run_open_receives(id),
		    (struct giver){ .to = out,
				    .by = ORIGIN_RUN,
				    .id = id,
				    .controller = out->runs[i].about.choice.controller });
	}
	n_units = units_read(&units);
	for (unsigned int i = 0; i < n_units; i++) {
		add(&givers, copy_of(units[i].chosen_fd), copy_of(units[i].receives_fd),
		    (struct giver){
			    .to = out, .by = ORIGIN_UNIT, .controller = units[i].controller });
		out->units_unstamped += units[i].counts.unstamped;
	}
	if (!moved_open(&moved))
		add(&givers, -1, copy_of(moved.receives_fd),
		    (struct giver){ .to = out, .by = ORIGIN_RENICE });
	moved_close(&moved);
	read_gateways(out);
	out->known = !givers.n ||
		     remembered_each(&givers.all->map, givers.n, sizeof(*givers.all), collect);
	for (size_t i = 0; i < givers.n; i++)
		close(givers.all[i].map.fd);
	free(givers.all);
	units_free(units, n_units);
	sort(out);
}

void origins_free(struct origins *origins)
{
	free(origins->all);
	free(origins->runs);
	free(origins->gateways);
	free(origins->by_gateway);
	standing_close(&origins->standing);
	held_free(&origins->held);
	for (unsigned int i = 0; i < ORIGIN_NAMES; i++) {
		free(origins->cgroups[i].name);
		free(origins->processes[i].name);
	}
	*origins = (struct origins){ 0 };
}

static bool by_memory(const struct origins *origins, uint64_t flow, struct origin *out)
{
	const struct origin key = { .flow = flow }, *found = NULL;

	if (gateway_instance_of(flow))
		found = gateway_of(origins, flow);
	else if (origins->n)
		found = bsearch(&key, origins->all, origins->n, sizeof(key), by_flow);
	if (!found)
		return false;
	*out = *found;
	if (out->by == ORIGIN_RULE)
		out->rule = standing_rule(&origins->standing, out->id);
	return true;
}

/* Ids begin at 1 again after the last rule was removed, so the record has the time as well. */
static void by_rule(const struct origins *origins, const struct ccbpf_flow_life *life,
		    struct origin *out)
{
	const struct standing *standing = &origins->standing;

	*out = (struct origin){ .by = ORIGIN_RULE, .id = life->rule_id };
	for (unsigned int i = 0; i < standing->n; i++)
		if (standing->rules[i].made_ns == life->rule)
			out->rule = &standing->rules[i];
	if (out->rule)
		memcpy(out->controller, out->rule->choice.controller, CCBPF_NAME_LEN);
}

/* `renice` to another controller, or a choice that the program makes later, ends what it was given. */
static bool has_another(const struct ccbpf_flow *record, const struct origin *origin)
{
	return record->kind != CCBPF_KIND_rx_le && *origin->controller &&
	       strncmp(record->controller, origin->controller, CCBPF_NAME_LEN);
}

bool origins_find(const struct origins *origins, uint64_t flow, const struct ccbpf_flow *record,
		  struct origin *out)
{
	if (record->life.rule) /* the program of the rules is the last one to be called */
		by_rule(origins, &record->life, out);
	else if (!by_memory(origins, flow, out))
		return false;
	out->flow = flow;
	out->cgroup = record->life.cgroup;
	return !has_another(record, out);
}

size_t origins_count(const struct origins *origins, enum origin_by by)
{
	size_t count = 0;

	for (size_t i = 0; i < origins->n; i++)
		count += origins->all[i].by == by;
	return count;
}

int origin_by_giver(const void *a, const void *b)
{
	const struct origin *x = a, *y = b;

	if (x->by != y->by)
		return x->by < y->by ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}
