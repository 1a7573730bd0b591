// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flow records and events as JSON: see flowjson.h. The fields of a flow record
 * come from its tables; a new field of an event needs one row here.
 */
#include <stddef.h>

#include "cc/events.h"
#include "cc/flowfields.h"
#include "cc/flowjson.h"
#include "cc/flowkinds.h"
#include "cc/flowtext.h"
#include "out/json.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define NUMBER(of, member)                      \
	{ #member, offsetof(struct of, member), \
	  _Generic(((struct of *)0)->member, __u16: FORM_u16, __u32: FORM_u32, __u64: FORM_u64) }

/* clang-format off */
#define F(member) NUMBER(ccbpf_event, member)
static const struct field event_fields[] = {
	F(time_ns),    F(flow),	       F(instance), F(kind),	 F(family),
	F(local_port), F(remote_port), F(cwnd),	    F(ssthresh), F(rtt_us),
	F(delay_us),   F(a),	       F(b),
};
#undef F
/* clang-format on */

static const struct part event_numbers = { "event", event_fields, COUNT(event_fields) };

/*
 * Keys are constants of this file and of the tables, each once in an object:
 * json-c need neither copy nor search for them.
 */
static void add(struct json_object *doc, const char *key, struct json_object *value)
{
	json_object_object_add_ex(doc, key, value,
				  JSON_C_OBJECT_ADD_KEY_IS_NEW | JSON_C_OBJECT_ADD_CONSTANT_KEY);
}

/* A field of a struct; `family` is that of its addresses. */
static struct json_object *field_json(const struct field *field, const void *of, __u16 family)
{
	if (field->form == FORM_s32)
		return json_object_new_int64((__s64)field_number(field, of));
	if (field_is_number(field))
		return json_object_new_uint64(field_number(field, of));
	return json_text(field_text(field, of, family));
}

static void add_fields(struct json_object *doc, const struct part *part, const void *of,
		       __u16 family)
{
	for (unsigned int i = 0; i < part->n; i++)
		add(doc, part->fields[i].name, field_json(&part->fields[i], of, family));
}

struct json_object *flow_json(const struct flow *flow)
{
	const struct ccbpf_flow *record = &flow->record;
	struct json_object *doc = json_object_new_object();
	const struct part *part;

	add(doc, "key", json_object_new_uint64(flow->key));
	add_fields(doc, &flow_common, record, record->family);
	add_fields(doc, &flow_life, &record->life, record->family);
	for (unsigned int i = 0; (part = flow_part(record->kind, i)); i++) {
		struct json_object *own = json_object_new_object();

		add_fields(own, part, record->own, record->family);
		add(doc, part->name, own);
	}
	return doc;
}

struct json_object *event_json(const struct ccbpf_event *event)
{
	const struct flow_kind *kind = flow_kind_of(event->kind);
	const struct event_type *type = event_type_of(event->type);
	struct json_object *doc = json_object_new_object();

	add(doc, "controller", json_object_new_string(kind ? kind->name : "?"));
	add(doc, "type", json_object_new_string(type ? type->word : "?"));
	add(doc, "local_addr", json_text(address_text(event->family, event->local_addr)));
	add(doc, "remote_addr", json_text(address_text(event->family, event->remote_addr)));
	add_fields(doc, &event_numbers, event, event->family);
	return doc;
}
