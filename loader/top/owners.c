// SPDX-License-Identifier: GPL-2.0-only
/* Whose the flows are: see owners.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ccbpf/rule.h"
#include "sys/cgroup.h"
#include "sys/process.h"
#include "top/owners.h"
#include "util/clock.h"
#include "util/memory.h"
#include "util/text.h"

#define SHARE 50 /* a look every 50 times the CPU time of the last one: 2 % of a core */

static uint64_t cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000ull + used.tv_nsec;
}

static int by_group(const void *a, const void *b)
{
	const struct owner_name *x = a, *y = b;

	return x->group < y->group ? -1 : x->group > y->group;
}

static const char *find(const struct owner_names *names, uint64_t group)
{
	const struct owner_name key = { .group = group }, *found;

	if (!names->n)
		return NULL;
	found = bsearch(&key, names->all, names->n, sizeof(key), by_group);
	return found ? found->name : NULL;
}

static void free_names(struct owner_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->all[i].name);
	free(names->all);
	*names = (struct owner_names){ 0 };
}

/* Its name now, a text(); NULL: it is gone. */
static const char *name_now(enum group_kind kind, uint64_t group)
{
	char path[CCBPF_CGROUP_LEN];
	const char *name;

	if (kind == GROUP_CGROUP) {
		int err = cgroup_path(group, path, sizeof(path));

		if (err)
			return cgroup_removed(err) ? NULL : text("unknown cgroup %" PRIu64, group);
		return text("%s", path);
	}
	name = process_name(group);
	return *name ? text("%s (%d)", name, (int)group) : NULL;
}

/* The groups of these flows, behind `n` others. Returns how many there are then. */
static size_t collect(struct owner_name *all, size_t n, const struct watched *flows, size_t n_flows,
		      enum group_kind kind)
{
	for (size_t i = 0; i < n_flows; i++)
		if (flows[i].group[kind] != GROUP_UNKNOWN)
			all[n++].group = flows[i].group[kind];
	return n;
}

/* The names of all groups of the model. What is gone keeps the name that it had. */
static void name_groups(struct owner_names *names, enum group_kind kind, const struct model *model)
{
	struct owner_names now = { must_alloc(model->n + model->n_ended + 1, sizeof(*now.all)), 0 };
	const struct text_block *mark = text_mark();
	size_t n = collect(now.all, 0, model->flows, model->n, kind);

	n = collect(now.all, n, model->ended, model->n_ended, kind);
	if (n)
		qsort(now.all, n, sizeof(*now.all), by_group);
	for (size_t i = 0; i < n; i++) {
		uint64_t group = now.all[i].group;
		const char *name;

		if (i && group == now.all[now.n - 1].group)
			continue;
		name = name_now(kind, group) ?: find(names, group);
		now.all[now.n++] = (struct owner_name){ group, must_copy(name ?: "gone") };
		text_release(mark);
	}
	free_names(names);
	*names = now;
}

/* Of each flow. One that no process holds any more keeps the one that it had: it ends. */
static void find_groups(struct owners *owners, struct model *model)
{
	owners->source.look(owners->source.data);
	for (size_t i = 0; i < model->n; i++) {
		struct watched *w = &model->flows[i];
		pid_t pid = owners->source.process(owners->source.data, w->flow.key);

		if (w->flow.record.life.cgroup)
			w->group[GROUP_CGROUP] = w->flow.record.life.cgroup;
		if (pid)
			w->group[GROUP_PROCESS] = pid;
	}
	name_groups(&owners->names[GROUP_CGROUP], GROUP_CGROUP, model);
	name_groups(&owners->names[GROUP_PROCESS], GROUP_PROCESS, model);
}

/* Whose the flow is that is held. When it has ended no process holds its socket: then what was said
 * before stays. */
static void say(struct owners *owners, const struct model *model)
{
	const struct watched *held = model_find(model, &model->held);
	const char *words;

	if ((!held || held->ended_ns) && flow_id_is(&owners->said_of, &model->held))
		return;
	words = held ? owners->source.words(owners->source.data, &held->flow) : NULL;
	free(owners->said);
	owners->said = words ? must_copy(words) : NULL;
	owners->said_of = model->held;
}

static void look(struct owners *owners, bool groups, struct model *model, uint64_t now_ns)
{
	uint64_t before_ns = cpu_ns(), pause_ns;

	if (model->holds && !owners->source.look_for_words(owners->source.data))
		return;
	if (groups)
		find_groups(owners, model);
	if (model->holds)
		say(owners, model);
	pause_ns = SHARE * (cpu_ns() - before_ns);
	/* Periods are not exact: less than one, so that none is left out for that. */
	owners->due_ns =
		now_ns +
		(pause_ns > owners->period_ns / 4 * 3 ? pause_ns : owners->period_ns / 4 * 3);
	owners->grouped = groups;
}

void owners_look(struct owners *owners, bool groups, struct model *model)
{
	uint64_t now_ns = monotonic_ns();

	if (now_ns >= owners->due_ns || (groups && !owners->grouped))
		look(owners, groups, model, now_ns);
	else if (model->holds && !flow_id_is(&owners->said_of, &model->held))
		say(owners, model);
}

const char *owners_name(const struct owners *owners, enum group_kind kind, uint64_t group)
{
	if (kind == GROUP_CONTROLLER || group == GROUP_UNKNOWN)
		return NULL;
	return find(&owners->names[kind], group) ?: "gone";
}

const char *owners_said(const struct owners *owners, const struct flow_id *flow)
{
	return flow_id_is(&owners->said_of, flow) ? owners->said : NULL;
}

void owners_free(struct owners *owners)
{
	for (unsigned int i = 0; i < GROUP_KINDS; i++)
		free_names(&owners->names[i]);
	free(owners->said);
	*owners = (struct owners){ 0 };
}
