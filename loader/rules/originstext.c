// SPDX-License-Identifier: GPL-2.0-only
/* Who gave a connection its controller, for a person and as JSON: see origins.h. */
#include <stdlib.h>
#include <string.h>

#include "out/json.h"
#include "rules/origins.h"
#include "rules/rule.h"
#include "sys/cgroup.h"
#include "sys/process.h"
#include "util/memory.h"
#include "util/text.h"

static const char *const words[] = {
	[ORIGIN_RULE] = "rule",	    [ORIGIN_RUN] = "run",	  [ORIGIN_UNIT] = "systemd",
	[ORIGIN_RENICE] = "renice", [ORIGIN_GATEWAY] = "gateway",
};

const char *origin_name(const struct origin *origin)
{
	if (origin->device)
		return text("%s %s", words[origin->by], origin->device);
	return origin->id ? text("%s %u", words[origin->by], origin->id) : words[origin->by];
}

/* The place of a name among those that are kept; with another id: what was there is forgotten. */
static struct kept_name *place(struct kept_name *names, uint64_t id, bool *kept)
{
	struct kept_name *name = &names[id % ORIGIN_NAMES];

	*kept = id && name->id == id;
	if (!*kept) {
		free(name->name);
		*name = (struct kept_name){ .id = id };
	}
	return name;
}

/*
 * Its path, until the next one is asked for. NULL: it has none, and `*why` says "gone" or, without
 * the privilege to ask, "unknown".
 */
static const char *cgroup_or(struct origins *origins, const struct origin *origin, const char **why)
{
	char path[CCBPF_CGROUP_LEN];
	bool kept;
	struct kept_name *name = place(origins->cgroups, origin->cgroup, &kept);

	if (!kept) {
		int err = cgroup_path(origin->cgroup, path, sizeof(path));

		name->name = err ? NULL : must_copy(path);
		name->why = cgroup_removed(err) ? "gone" : "unknown";
	}
	*why = name->why;
	return name->name;
}

static const char *cgroup_of(struct origins *origins, const struct origin *origin)
{
	const char *why;

	return cgroup_or(origins, origin, &why);
}

/* Its name, until the next one is asked for. */
static const char *process_of(struct origins *origins, pid_t pid)
{
	bool kept;
	struct kept_name *name = place(origins->processes, pid, &kept);

	if (!kept)
		name->name = must_copy(process_name(pid));
	return name->name;
}

/* The lowest unit in the path of its cgroup: what a service or slice has made below is no unit. */
static const char *unit_of(struct origins *origins, const struct origin *origin)
{
	const char *at = cgroup_of(origins, origin), *found = NULL, *end;

	for (; at && *at; at = end) {
		at += *at == '/';
		end = at + strcspn(at, "/");
		if (end - at > 6 && !strncmp(end - 6, ".slice", 6))
			found = text("%.*s", (int)(end - at), at);
		else
			return end > at ? text("%.*s", (int)(end - at), at) : found;
	}
	return found;
}

/* The rule's conditions, the run's command, the unit's name, renice's option, the gateway's device; NULL: it is gone. */
static const char *giver(struct origins *origins, const struct origin *origin)
{
	if (origin->rule)
		return rule_conditions_text(origin->rule);
	for (unsigned int i = 0; origin->by == ORIGIN_RUN && i < origins->n_runs; i++)
		if (origins->runs[i].id == origin->id)
			return text("%s", origins->runs[i].about.command);
	if (origin->by == ORIGIN_RENICE)
		return "--download";
	if (origin->by == ORIGIN_GATEWAY)
		return origin->device;
	return origin->by == ORIGIN_UNIT ? unit_of(origins, origin) : NULL;
}

const struct held_socket *origin_processes(struct origins *origins, const struct origin *origin,
					   size_t *n)
{
	if (!origins->have_held)
		origins->held = held_read();
	origins->have_held = true;
	return held_of(&origins->held, origin->flow, n);
}

/* "cgroup /system.slice/x.service; process rsync (4711) and 2 more" */
static const char *whose(struct origins *origins, const struct origin *origin)
{
	const char *why, *cgroup = cgroup_or(origins, origin, &why), *by = "unknown", *more = "";
	size_t n;
	const struct held_socket *holder = origin_processes(origins, origin, &n);

	if (holder)
		by = text("%s (%d)", process_of(origins, holder->pid), holder->pid);
	if (n > 1)
		more = text(" and %zu more", n - 1);
	return text("cgroup %s; process %s%s", cgroup ?: why, by, more);
}

static const char *origin_words(struct origins *origins, const struct origin *origin)
{
	const char *of = giver(origins, origin), *why;

	if (origin->by == ORIGIN_GATEWAY)
		return text("by %s: a connection of another host", origin_name(origin));
	if (!of)
		of = origin->by == ORIGIN_UNIT && !cgroup_or(origins, origin, &why) ? why
										    : "removed";
	return text("by %s (%s); %s", origin_name(origin), of, whose(origins, origin));
}

const char *origins_words(struct origins *origins, uint64_t flow, const struct ccbpf_flow *record)
{
	struct origin origin;
	size_t n;

	if (origins_find(origins, flow, record, &origin))
		return origin_words(origins, &origin);
	origin = (struct origin){ .flow = flow, .cgroup = record->life.cgroup };
	if (!origin.cgroup && !origin_processes(origins, &origin, &n))
		return NULL;
	return text("by no rule, run or unit; %s", whose(origins, &origin));
}

struct json_object *origin_id_json(const struct origin *origin)
{
	struct json_object *doc = json_object_new_object();

	add_text(doc, "by", words[origin->by]);
	json_object_object_add(doc, "id", origin->id ? json_object_new_int64(origin->id) : NULL);
	return doc;
}

struct json_object *origin_json(struct origins *origins, const struct origin *origin)
{
	struct json_object *doc = origin_id_json(origin), *list = json_object_new_array();
	size_t n;
	const struct held_socket *holder = origin_processes(origins, origin, &n);

	add_text(doc, "of", giver(origins, origin));
	add_text(doc, "cgroup", cgroup_of(origins, origin));
	for (size_t i = 0; holder && i < n; i++) {
		struct json_object *process = json_object_new_object();

		add_number(process, "pid", holder[i].pid);
		add_text(process, "name", process_of(origins, holder[i].pid));
		json_object_array_add(list, process);
	}
	json_object_object_add(doc, "processes", list);
	return doc;
}
