// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is read back from pinned maps, which somebody else may have written: flow records, events, rules.
 *
 * The first byte of an input says which, the others are the record; what is missing is 0.
 *
 *  1. Whatever it holds, its JSON is printable, and the same document when it is read.
 *  2. Numbers in JSON are those of the record, read here by the name of the field.
 *  3. Its words for a person end within their buffers, and are printable as they are printed.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "cc/flowjson.h"
#include "cc/flowtext.h"
#include "ccbpf/event.h"
#include "frame.h"
#include "out/printable.h"
#include "rules/rule.h"
#include "rules/standing.c" /* terminate() is its own */
#include "util/text.h"

/* What follows the first byte, over zeroes. */
static void fill(void *record, size_t most, const uint8_t *data, size_t size)
{
	memset(record, 0, most);
	if (size > 1)
		memcpy(record, data + 1, size - 1 < most ? size - 1 : most);
}

static void check_number(struct json_object *doc, const char *name, uint64_t number)
{
	struct json_object *value;

	HOLDS(json_object_object_get_ex(doc, name, &value));
	HOLDS(json_object_is_type(value, json_type_int));
	HOLDS(json_object_get_uint64(value) == number ||
	      json_object_get_int64(value) == (int64_t)number);
}

static void check_words(const char *words)
{
	char *copy = strdup(words);

	HOLDS(*words && strlen(words) < TEXT_MOST);
	HOLDS(fuzz_printable(make_printable(copy)));
	free(copy);
}

#define NUMBERS_u16(record, field) check_number(doc, #field, (record).field);
#define NUMBERS_u32(record, field) check_number(doc, #field, (record).field);
#define NUMBERS_s32(record, field) check_number(doc, #field, (record).field);
#define NUMBERS_u64(record, field) check_number(doc, #field, (record).field);
#define NUMBERS_name(record, field)
#define NUMBERS_address(record, field)
#define NUMBERS_phase(record, field)
#define NUMBERS_signal(record, field)

static void check_flow(const uint8_t *data, size_t size)
{
	struct flow flow = { .key = size };
	struct json_object *doc;

	fill(&flow.record, sizeof(flow.record), data, size);
	doc = flow_json(&flow);
	fuzz_json(doc);
	check_number(doc, "key", flow.key);
#define X(of, field, form, unit, text) NUMBERS_##form(flow.record, field)
	CCBPF_FLOW_COMMON(X, ccbpf_flow)
#undef X
#define X(of, field, form, unit, text) NUMBERS_##form(flow.record.life, field)
	CCBPF_FLOW_LIFE(X, ccbpf_flow_life)
#undef X
	check_words(flow_own_words(&flow.record));
	check_words(flow_met_words(&flow.record));
	check_words(endpoint(flow.record.family, flow.record.remote_addr, 65535));
	json_object_put(doc);
}

static void check_event(const uint8_t *data, size_t size)
{
	struct ccbpf_event event;
	struct json_object *doc;

	fill(&event, sizeof(event), data, size);
	doc = event_json(&event);
	fuzz_json(doc);
	check_number(doc, "time_ns", event.time_ns);
	check_number(doc, "flow", event.flow);
	check_number(doc, "cwnd", event.cwnd);
	check_number(doc, "a", event.a);
	check_number(doc, "b", event.b);
	json_object_put(doc);
}

static void check_rule(const uint8_t *data, size_t size)
{
	const struct ccbpf_choice_counts counts = { .set = size, .kept = ~0ULL };
	struct ccbpf_rule rule;
	struct json_object *doc;

	fill(&rule, sizeof(rule), data, size);
	terminate(&rule);
	doc = rule_json(&rule, &counts);
	fuzz_json(doc);
	check_number(doc, "id", rule.id);
	HOLDS(memchr(rule.netns, 0, sizeof(rule.netns)));
	HOLDS(memchr(rule.cgroup, 0, sizeof(rule.cgroup)));
	HOLDS(memchr(rule.choice.controller, 0, sizeof(rule.choice.controller)));
	if (rule.conditions & (2 * CCBPF_RULE_REMOTE_PORT - 1))
		check_words(rule_conditions_text(&rule));
	json_object_put(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(const uint8_t *, size_t) = { check_flow, check_event,
								   check_rule };

	fuzz_begin();
	checks[size ? data[0] % 3 : 0](data, size);
	fuzz_said(0);
	fuzz_end();
	return 0;
}
