// SPDX-License-Identifier: GPL-2.0-only
/* What gave a controller to its flows: see givers.h. */
#include <stdlib.h>

#include "cmd/givers.h"
#include "out/json.h"
#include "out/output.h"
#include "util/memory.h"
#include "util/text.h"

struct givers givers_of(const struct origins *origins, const struct flow *flows, size_t n_flows,
			const struct controller *c)
{
	struct givers givers = { .origins = must_alloc(n_flows, sizeof(*givers.origins)) };

	for (size_t i = 0; i < n_flows; i++)
		if (flows[i].record.kind == (__u32)c->kind)
			givers.n += origins_find(origins, flows[i].key, &flows[i].record,
						 &givers.origins[givers.n]);
	if (givers.n)
		qsort(givers.origins, givers.n, sizeof(*givers.origins), origin_by_giver);
	return givers;
}

void givers_free(struct givers *givers)
{
	free(givers->origins);
	*givers = (struct givers){ 0 };
}

/* How many flows have the same giver as number `i`, and follow each other; 0 behind the last. */
static size_t same_giver(const struct givers *givers, size_t i)
{
	size_t end = i;

	while (end < givers->n && !origin_by_giver(&givers->origins[i], &givers->origins[end]))
		end++;
	return end - i;
}

struct json_object *givers_json(const struct givers *givers)
{
	struct json_object *list = json_object_new_array(), *doc;

	for (size_t i = 0, n; (n = same_giver(givers, i)); i += n) {
		doc = origin_id_json(&givers->origins[i]);
		add_number(doc, "flows", n);
		json_object_array_add(list, doc);
	}
	return list;
}

void givers_print(const struct controller *c, const struct givers *givers)
{
	char words[TEXT_MOST / 2] = "";

	for (size_t i = 0, n; (n = same_giver(givers, i)); i += n)
		append(words, sizeof(words), ", ", "%zu%s by %s", n,
		       i	? ""
		       : n == 1 ? " flow"
				: " flows",
		       origin_name(&givers->origins[i]));
	if (*words)
		output_line("%s: %s", c->name, words);
}
