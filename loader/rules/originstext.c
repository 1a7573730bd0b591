// SPDX-License-Identifier: GPL-2.0-only
/* Who gave a connection its controller, for a person and as JSON: see origins.h. */
#include <string.h>

#include "out/json.h"
#include "rules/origins.h"
#include "rules/rule.h"
#include "sys/cgroup.h"
#include "util/text.h"

static const char *const words[] = {
	[ORIGIN_RULE] = "rule",
	[ORIGIN_RUN] = "run",
	[ORIGIN_UNIT] = "systemd",
	[ORIGIN_RENICE] = "renice",
};

const char *origin_name(const struct origin *origin)
{
	return origin->id ? text("%s %u", words[origin->by], origin->id) : words[origin->by];
}

static const char *cgroup_of(const struct origin *origin)
{
	char path[CCBPF_CGROUP_LEN];

	return cgroup_path(origin->cgroup, path, sizeof(path)) ? NULL : text("%s", path);
}

/* The lowest unit in the path of its cgroup: what a service or slice has made below is no unit. */
static const char *unit_of(const struct origin *origin)
{
	const char *at = cgroup_of(origin), *found = NULL, *end;

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

/* The rule's conditions, the run's command, the unit's name, renice's option; NULL: it is gone. */
static const char *giver(const struct origins *origins, const struct origin *origin)
{
	const struct standing *standing = &origins->standing;

	for (unsigned int i = 0; origin->by == ORIGIN_RULE && i < standing->n; i++)
		if (standing->rules[i].id == origin->id)
			return rule_conditions_text(&standing->rules[i]);
	for (unsigned int i = 0; origin->by == ORIGIN_RUN && i < origins->n_runs; i++)
		if (origins->runs[i].id == origin->id)
			return text("%s", origins->runs[i].about.command);
	if (origin->by == ORIGIN_RENICE)
		return "--download";
	return origin->by == ORIGIN_UNIT ? unit_of(origin) : NULL;
}

const struct holder *origin_processes(struct origins *origins, const struct origin *origin,
				      size_t *n)
{
	if (!origins->have_holders)
		origins->holders = holders_read();
	origins->have_holders = true;
	return holders_of(&origins->holders, origin->inode, n);
}

const char *origin_words(struct origins *origins, const struct origin *origin)
{
	const char *of = giver(origins, origin), *cgroup = cgroup_of(origin), *by = NULL;
	size_t n;
	const struct holder *holder = origin_processes(origins, origin, &n);

	if (holder)
		by = text("%s (%d)", process_name(holder->pid), holder->pid);
	return text("by %s (%s); cgroup %s; process %s%s", origin_name(origin), of ?: "removed",
		    cgroup ?: "gone", by ?: "unknown", n > 1 ? text(" and %zu more", n - 1) : "");
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
	const struct holder *holder = origin_processes(origins, origin, &n);

	add_text(doc, "of", giver(origins, origin));
	add_text(doc, "cgroup", cgroup_of(origin));
	for (size_t i = 0; holder && i < n; i++) {
		struct json_object *process = json_object_new_object();

		add_number(process, "pid", holder[i].pid);
		add_text(process, "name", process_name(holder[i].pid));
		json_object_array_add(list, process);
	}
	json_object_object_add(doc, "processes", list);
	return doc;
}
