// SPDX-License-Identifier: GPL-2.0-only
/* Who gave a connection its controller, for a person and as JSON: see origins.h. */
#include <string.h>

#include "out/json.h"
#include "rules/origins.h"
#include "rules/rule.h"
#include "sys/cgroup.h"
#include "util/text.h"

static const char *const words[] = {
	[ORIGIN_RULE] = "rule", [ORIGIN_RUN] = "run", [ORIGIN_UNIT] = "systemd"
};

const char *origin_name(const struct origin *origin)
{
	return origin->id ? text("%s %u", words[origin->by], origin->id) : words[origin->by];
}

/* Its path, a text(). NULL: it has none, and `*why` says "gone" or, without the privilege to ask, "unknown". */
static const char *cgroup_or(const struct origin *origin, const char **why)
{
	char path[CCBPF_CGROUP_LEN];
	int err = cgroup_path(origin->cgroup, path, sizeof(path));

	*why = cgroup_removed(err) ? "gone" : "unknown";
	return err ? NULL : text("%s", path);
}

static const char *cgroup_of(const struct origin *origin)
{
	const char *why;

	return cgroup_or(origin, &why);
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

/* The rule's conditions, the run's command, the unit's name; NULL: it is gone. */
static const char *giver(const struct origins *origins, const struct origin *origin)
{
	const struct standing *standing = &origins->standing;

	for (unsigned int i = 0; origin->by == ORIGIN_RULE && i < standing->n; i++)
		if (standing->rules[i].id == origin->id)
			return rule_conditions_text(&standing->rules[i]);
	for (unsigned int i = 0; origin->by == ORIGIN_RUN && i < origins->n_runs; i++)
		if (origins->runs[i].id == origin->id)
			return text("%s", origins->runs[i].about.command);
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
	const char *of = giver(origins, origin), *by = "unknown", *why, *more = "";
	const char *cgroup = cgroup_or(origin, &why);
	size_t n;
	const struct holder *holder = origin_processes(origins, origin, &n);

	if (!of)
		of = origin->by == ORIGIN_UNIT && !cgroup ? why : "removed";
	if (holder)
		by = text("%s (%d)", process_name(holder->pid), holder->pid);
	if (n > 1)
		more = text(" and %zu more", n - 1);
	return text("by %s (%s); cgroup %s; process %s%s", origin_name(origin), of, cgroup ?: why,
		    by, more);
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
