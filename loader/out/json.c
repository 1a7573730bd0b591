// SPDX-License-Identifier: GPL-2.0-only
/* JSON: see json.h. */
#include <stdlib.h>
#include <string.h>

#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "out/printable.h"
#include "util/memory.h"

struct json_object *json_text(const char *string)
{
	char *copy = string ? make_printable(must_copy(string)) : NULL;
	struct json_object *made = copy ? json_object_new_string(copy) : NULL;

	free(copy);
	return made;
}

void add_text(struct json_object *doc, const char *key, const char *value)
{
	json_object_object_add(doc, key, json_text(value));
}

void add_number(struct json_object *doc, const char *key, uint64_t value)
{
	json_object_object_add(doc, key, json_object_new_uint64(value));
}

void add_bool(struct json_object *doc, const char *key, bool value)
{
	json_object_object_add(doc, key, json_object_new_boolean(value));
}

/* The text of a document, which lives as long as the document. */
static const char *serialized(struct json_object *doc)
{
	int flags = output.pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED
				  : JSON_C_TO_STRING_PLAIN;

	return json_object_to_json_string_ext(doc, flags | JSON_C_TO_STRING_NOSLASHESCAPE);
}

void output_json_to(FILE *to, struct json_object *doc)
{
	fprintf(to, "%s\n", serialized(doc));
	json_object_put(doc);
}

struct json_list {
	struct json_object *envelope;
	const char *tail; /* the envelope's text behind its items */
	bool any;
};

struct json_list *output_json_open(struct json_object *envelope)
{
	struct json_list *list = must_alloc(1, sizeof(*list));
	const char *head = serialized(envelope);

	list->envelope = envelope;
	list->tail = strrchr(head, ']');
	fwrite(head, 1, list->tail - head, stdout);
	return list;
}

void output_json_item(struct json_list *list, struct json_object *item)
{
	if (list->any)
		putchar(',');
	list->any = true;
	fputs(serialized(item), stdout);
	json_object_put(item);
}

void output_json_close(struct json_list *list)
{
	fprintf(stdout, "%s\n", list->tail);
	json_object_put(list->envelope);
	free(list);
}

void output_json(struct json_object *doc)
{
	output_json_to(stdout, doc);
}

int output_answer(int err, struct json_object *doc)
{
	if (!err && output.json)
		output_json(doc);
	else
		json_object_put(doc);
	return err;
}

int output_answer_of(int err, struct json_object *doc, struct json_object *list)
{
	output_answer(json_object_array_length(list) ? EXIT_OK : err, doc);
	return err;
}
