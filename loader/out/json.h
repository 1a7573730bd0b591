/* SPDX-License-Identifier: GPL-2.0-only */
/* JSON, by json-c: 64-bit safe. */
#ifndef CCBPF_JSON_H
#define CCBPF_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A string of JSON, printable; NULL becomes null. */
struct json_object *json_text(const char *string);

/* Members of a JSON object. A string that is NULL becomes null. */
void add_text(struct json_object *doc, const char *key, const char *value);
void add_number(struct json_object *doc, const char *key, uint64_t value);
void add_bool(struct json_object *doc, const char *key, bool value);

/* Write a document and a newline, and free it. */
void output_json_to(FILE *to, struct json_object *doc);
void output_json(struct json_object *doc);

/*
 * A command's answer: written under -j unless `err`, an exit code, says that it
 * failed. Freed. Returns `err`.
 */
int output_answer(int err, struct json_object *doc);

/*
 * The same for a command that does something to several: what is in `list`, which
 * is part of `doc`, was done and is told, even if another one failed.
 */
int output_answer_of(int err, struct json_object *doc, struct json_object *list);

/*
 * Write a document with a long last array, item by item, so that it need never
 * be in memory as a whole: `envelope` ends with an empty array. Each of the
 * objects is freed.
 */
struct json_list;
struct json_list *output_json_open(struct json_object *envelope);
void output_json_item(struct json_list *list, struct json_object *item);
void output_json_close(struct json_list *list);

#endif
