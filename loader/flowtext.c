// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flow records and events as words: see flowtext.h. A new field of the record
 * needs one row here.
 */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "flowtext.h"

static const char *const phases[CCBPF_PHASES] = {
	[CCBPF_PHASE_SLOW_START] = "slow-start",
	[CCBPF_PHASE_AVOIDANCE] = "avoidance",
	[CCBPF_PHASE_INFERENCE] = "inference",
	[CCBPF_PHASE_RECOVERY] = "recovery",
	[CCBPF_PHASE_SMALL] = "small",
};

static const char *const signals[CCBPF_SIGNALS] = {
	[CCBPF_SIGNAL_RTT] = "rtt",
	[CCBPF_SIGNAL_OWD] = "owd",
	[CCBPF_SIGNAL_ECN] = "ecn",
};

const char *phase_word(__u32 phase)
{
	return phase < CCBPF_PHASES ? phases[phase] : "?";
}

const char *signal_word(__u32 signal)
{
	return signal < CCBPF_SIGNALS ? signals[signal] : "?";
}

const char *endpoint(__u16 family, const __u8 *address, __u16 port)
{
	char name[INET6_ADDRSTRLEN];

	if (!inet_ntop(family, address, name, sizeof(name)))
		return text("?:%u", port);
	return family == AF_INET6 ? text("[%s]:%u", name, port)
				  : text("%s:%u", name, port);
}

/* A number inside a record. */
struct field {
	const char *name;
	unsigned short offset;
	unsigned char size; /* bytes: 2, 4, 8 */
	bool is_signed;
};

#define MEMBER(type, member) (((type *)0)->member)
#define FIELD(type, member)                                              \
	{ #member, offsetof(type, member), sizeof(MEMBER(type, member)), \
	  _Generic(MEMBER(type, member),                                 \
		  __s32: true,                                           \
		  __s64: true,                                           \
		  default: false) }

#define F(member) FIELD(struct ccbpf_flow, member)
static const struct field flow_fields[] = {
	F(instance),
	F(started_ns),
	F(updated_ns),
	F(kind),
	F(netns),
	F(family),
	F(local_port),
	F(remote_port),
	F(mss),
	F(ecn),
	F(cwnd),
	F(ssthresh),
	F(rtt_us),
	F(srtt_us),
	F(rtt_min_us),
	F(delay_us),
	F(delay_smoothed_us),
	F(delay_threshold_us),
	F(delay_max_us),
	F(delay_base_us),
	F(retransmits),
	F(rate_bps),
	F(bytes_acked),
	F(indications),
	F(cuts_to_one),
	F(losses),
	F(marks),
	F(undos),
};
#undef F

#define F(member) FIELD(struct ccbpf_flow_lp, member)
static const struct field lp_fields[] = {
	F(window),
	F(pair_gap_us),
	F(inference_left_us),
	F(peer_tick_ns),
};
#undef F

#define F(member) FIELD(struct ccbpf_flow_hstcp_lp, member)
static const struct field highspeed_fields[] = {
	F(increase_permille),
	F(decrease_permille),
	F(second_permille),
	F(highspeed),
};
#undef F

#define F(member) FIELD(struct ccbpf_flow_tcpw, member)
static const struct field tcpw_fields[] = {
	F(ere_bps),
	F(queue_milli),
	F(threshold_milli),
	F(d_min_us),
	F(d_max_us),
	F(d_loss_us),
	F(foreground_permille),
	F(window),
	F(pair_gap_us),
};
#undef F

#define F(member) FIELD(struct ccbpf_flow_ltcp, member)
static const struct field ltcp_fields[] = {
	F(layer),
	F(layer_begin),
	F(layer_end),
	F(rtt_factor_permille),
};
#undef F

#define F(member) FIELD(struct ccbpf_flow_nf, member)
static const struct field nf_fields[] = {
	F(estimate_kbps),
	F(estimate_age_ms),
	F(chirps_sent),
	F(chirps_complete),
	F(chirps_discarded),
	F(probe_bytes),
	F(range_min_kbps),
	F(range_max_kbps),
	F(target),
	F(share_milli),
	F(dscp),
	F(chirping),
};
#undef F

#define F(member) FIELD(struct ccbpf_event, member)
static const struct field event_fields[] = {
	F(time_ns),    F(flow),	       F(instance), F(kind),	 F(family),
	F(local_port), F(remote_port), F(cwnd),	    F(ssthresh), F(rtt_us),
	F(delay_us),   F(a),	       F(b),
};
#undef F

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * The controllers' own parts, by kind: fields of the record's union, and the
 * name of the object that shows them.
 */
struct part {
	const char *name;
	const struct field *fields;
	unsigned int n;
};

#define PARTS_MAX 2
#define PART(name, fields) { name, fields, COUNT(fields) }
static const struct part own_parts[CCBPF_KINDS][PARTS_MAX] = {
	[CCBPF_KIND_tcp_lp] = { PART("lp", lp_fields) },
	[CCBPF_KIND_tcp_lp_ecn] = { PART("lp", lp_fields) },
	[CCBPF_KIND_hstcp_lp] = { PART("lp", lp_fields),
				  PART("highspeed", highspeed_fields) },
	[CCBPF_KIND_tcpw_lp] = { PART("tcpw", tcpw_fields) },
	[CCBPF_KIND_ltcp] = { PART("ltcp", ltcp_fields) },
	[CCBPF_KIND_nf_tcp] = { PART("nf", nf_fields) },
};

static struct json_object *number(const void *record, const struct field *field)
{
	const char *at = (const char *)record + field->offset;
	__u64 u64 = 0;
	__u32 u32;
	__u16 u16;

	switch (field->size) {
	case sizeof(u16):
		memcpy(&u16, at, sizeof(u16));
		return json_object_new_int(u16);
	case sizeof(u32):
		memcpy(&u32, at, sizeof(u32));
		return json_object_new_int64(
			field->is_signed ? (__s64)(__s32)u32 : (__s64)u32);
	default:
		memcpy(&u64, at, sizeof(u64));
		return field->is_signed ? json_object_new_int64(u64)
					: json_object_new_uint64(u64);
	}
}

/*
 * Keys are constants of this file, each once in an object: json-c need neither
 * copy nor search for them.
 */
static void add(struct json_object *doc, const char *key,
		struct json_object *value)
{
	json_object_object_add_ex(doc, key, value,
				  JSON_C_OBJECT_ADD_KEY_IS_NEW |
					  JSON_C_OBJECT_ADD_CONSTANT_KEY);
}

static void add_numbers(struct json_object *doc, const void *record,
			const struct field *fields, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		add(doc, fields[i].name, number(record, &fields[i]));
}

static void add_address(struct json_object *doc, const char *key, __u16 family,
			const __u8 *address)
{
	char name[INET6_ADDRSTRLEN] = "?";

	inet_ntop(family, address, name, sizeof(name));
	add(doc, key, json_object_new_string(name));
}

static void add_parts(struct json_object *doc, const struct ccbpf_flow *record,
		      const struct part *parts)
{
	for (unsigned int i = 0; i < PARTS_MAX && parts[i].name; i++) {
		struct json_object *own = json_object_new_object();

		add_numbers(own, record->own, parts[i].fields, parts[i].n);
		add(doc, parts[i].name, own);
	}
}

struct json_object *flow_json(const struct flow *flow)
{
	const struct ccbpf_flow *record = &flow->record;
	struct json_object *doc = json_object_new_object();
	__u32 kind = record->kind;

	add(doc, "key", json_object_new_uint64(flow->key));
	add(doc, "controller",
	    json_object_new_string_len(record->controller,
				       strnlen(record->controller,
					       CCBPF_NAME_LEN)));
	add_address(doc, "local_addr", record->family, record->local_addr);
	add_address(doc, "remote_addr", record->family, record->remote_addr);
	add(doc, "phase", json_object_new_string(phase_word(record->phase)));
	add(doc, "delay_source",
	    json_object_new_string(signal_word(record->delay_source)));
	add_numbers(doc, record, flow_fields, COUNT(flow_fields));
	if (kind < CCBPF_KINDS)
		add_parts(doc, record, own_parts[kind]);
	return doc;
}

/* "what it says; a: SMOOTHED, b: THRESHOLD": the two words behind. */
static void split_text(const char *string, struct event_type *type)
{
	const char *a = strstr(string, "; a: ");
	const char *b = a ? strstr(a, ", b: ") : NULL;

	if (!b)
		return;
	snprintf(type->a, sizeof(type->a), "%.*s", (int)(b - a - 5), a + 5);
	snprintf(type->b, sizeof(type->b), "%s", b + 5);
}

const struct event_type *event_type_of(__u32 type)
{
	static struct event_type types[] = {
#define X(number, name, word_, text_) \
	[number] = { .word = word_, .text = text_ },
		CCBPF_EVENTS(X)
#undef X
	};

	if (type >= COUNT(types) || !types[type].word)
		return NULL;
	if (!*types[type].a)
		split_text(types[type].text, &types[type]);
	return &types[type];
}

struct json_object *event_json(const struct ccbpf_event *event)
{
	const struct controller *c = controller_of_kind(event->kind);
	const struct event_type *type = event_type_of(event->type);
	struct json_object *doc = json_object_new_object();

	add(doc, "controller", json_object_new_string(c ? c->name : "?"));
	add(doc, "type", json_object_new_string(type ? type->word : "?"));
	add_address(doc, "local_addr", event->family, event->local_addr);
	add_address(doc, "remote_addr", event->family, event->remote_addr);
	add_numbers(doc, event, event_fields, COUNT(event_fields));
	return doc;
}
