// SPDX-License-Identifier: GPL-2.0-only
/* Connections without TCP timestamps, whose receive window is left alone: see origins.h. */
#include "out/json.h"
#include "rules/origins.h"
#include "util/text.h"

/* Gets each giver that has such connections. */
typedef void each_fn(void *data, const struct origin *by, uint64_t connections);

static void each_unstamped(const struct origins *origins, each_fn *call, void *data)
{
	const struct standing *standing = &origins->standing;

	for (unsigned int i = 0; i < standing->n; i++)
		if (standing->counts[i].unstamped)
			call(data,
			     &(struct origin){ .by = ORIGIN_RULE, .id = standing->rules[i].id },
			     standing->counts[i].unstamped);
	for (unsigned int i = 0; i < origins->n_runs; i++)
		if (origins->runs[i].counts.choice.unstamped)
			call(data, &(struct origin){ .by = ORIGIN_RUN, .id = origins->runs[i].id },
			     origins->runs[i].counts.choice.unstamped);
	if (origins->units_unstamped)
		call(data, &(struct origin){ .by = ORIGIN_UNIT }, origins->units_unstamped);
}

static void add_words(void *data, const struct origin *by, uint64_t connections)
{
	append(data, TEXT_MOST, ", ", "%llu by %s", (unsigned long long)connections,
	       origin_name(by));
}

const char *origins_unstamped_words(const struct origins *origins)
{
	char words[TEXT_MOST] = "";

	each_unstamped(origins, add_words, words);
	return *words ? text("%s", words) : NULL;
}

static void add_json(void *data, const struct origin *by, uint64_t connections)
{
	struct json_object *doc = origin_id_json(by);

	add_number(doc, "connections", connections);
	json_object_array_add(data, doc);
}

struct json_object *origins_unstamped_json(const struct origins *origins)
{
	struct json_object *list = json_object_new_array();

	each_unstamped(origins, add_json, list);
	return list;
}
