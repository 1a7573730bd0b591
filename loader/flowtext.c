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
#include "output.h"

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

/* --- for a person -------------------------------------------------------- */

static const char *small_words(__u32 window, __u32 gap_us)
{
	return gap_us ? text("window %u: a pair every %s ms", window,
			     human_ms(gap_us))
		      : text("window %u", window);
}

static const char *lp_words(const struct ccbpf_flow_lp *lp)
{
	const char *small = small_words(lp->window, lp->pair_gap_us);

	if (lp->inference_left_us)
		small = text("%s, inference for %s ms more", small,
			     human_ms(lp->inference_left_us));
	return lp->peer_tick_ns
		       ? text("%s, peer's tick %.3f ms", small,
			      lp->peer_tick_ns / 1e6)
		       : text("%s, peer's tick not known yet", small);
}

static const char *highspeed_words(const struct ccbpf_flow_hstcp_lp *f)
{
	return text("%s; a %.2f packets, b %.3f, c %.3f of the window",
		    lp_words(&f->lp), f->increase_permille / 1e3,
		    f->decrease_permille / 1e3, f->second_permille / 1e3);
}

static const char *tcpw_words(const struct ccbpf_flow_tcpw *f)
{
	return text(
		"%s, ERE %s; queue %.1f of %.1f (D_min %s, D_max %s, D_loss %s ms, others' part %.2f)",
		small_words(f->window, f->pair_gap_us), human_bps(f->ere_bps),
		f->queue_milli / 1e3, f->threshold_milli / 1e3,
		human_ms(f->d_min_us), human_ms(f->d_max_us),
		f->d_loss_us ? human_ms(f->d_loss_us) : "?",
		f->foreground_permille / 1e3);
}

static const char *ltcp_words(const struct ccbpf_flow_ltcp *f)
{
	return text("K %u (from %u to below %u packets), K_R %.3f", f->layer,
		    f->layer_begin, f->layer_end, f->rtt_factor_permille / 1e3);
}

static const char *nf_words(const struct ccbpf_flow_nf *f)
{
	const char *estimate = "no estimate yet";

	if (f->estimate_age_ms != ~0u)
		estimate = text("estimate %s %s ago",
				human_bps(f->estimate_kbps * 1000ull),
				human_age(f->estimate_age_ms * 1000000ull));
	return text("%s; %u chirps, %u complete, %u discarded, %.2f MB%s",
		    estimate, f->chirps_sent, f->chirps_complete,
		    f->chirps_discarded, f->probe_bytes / 1e6,
		    f->chirping ? ", one under way" :
		    f->range_max_kbps ?
				  text("; the next from %s to %s",
				       human_bps(f->range_min_kbps * 1000ull),
				       human_bps(f->range_max_kbps * 1000ull)) :
				  "");
}

const char *flow_own_words(const struct ccbpf_flow *flow)
{
	switch (flow->kind) {
	case CCBPF_KIND_tcp_lp:
	case CCBPF_KIND_tcp_lp_ecn:
		return lp_words(&flow->lp);
	case CCBPF_KIND_hstcp_lp:
		return highspeed_words(&flow->hstcp_lp);
	case CCBPF_KIND_tcpw_lp:
		return tcpw_words(&flow->tcpw);
	case CCBPF_KIND_ltcp:
		return ltcp_words(&flow->ltcp);
	case CCBPF_KIND_nf_tcp:
		return nf_words(&flow->nf);
	default:
		return "a controller that this ccbpf does not know";
	}
}

const char *flow_met_words(const struct ccbpf_flow *f)
{
	return text(
		"met: %u indications (%u second), %u losses, %s, %u undone; base RTT %s ms, delay by %s",
		f->indications, f->cuts_to_one, f->losses,
		f->ecn ? text("%u marks", f->marks) : "no ECN", f->undos,
		human_ms(f->rtt_min_us), signal_word(f->delay_source));
}

/* --- for a program ------------------------------------------------------- */

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
