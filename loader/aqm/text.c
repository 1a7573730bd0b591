// SPDX-License-Identifier: GPL-2.0-only
/* What `ccbpf aqm show` says of a queue: see text.h. */
#include <stdio.h>
#include <string.h>

#include "aqm/text.h"
#include "out/human.h"
#include "out/json.h"
#include "out/table.h"
#include "sys/netns.h"
#include "util/clock.h"
#include "util/text.h"

static const char *const class_names[] = {
#define X(name, text) #name,
	CCBPF_AQM_CLASSES(X)
#undef X
};

/* A class's thresholds, 1/1000 %; false: it has none. */
static bool thresholds(const struct ccbpf_aqm_config *config, enum ccbpf_aqm_class class,
		       uint32_t *min, uint32_t *max)
{
	*min = class == CCBPF_AQM_nf ? config->nf_min : config->std_min;
	*max = class == CCBPF_AQM_nf ? config->nf_max : config->std_max;
	return class != CCBPF_AQM_probe && *min != CCBPF_AQM_OFF;
}

/* As nf_red takes it, whatever is in the map. */
static uint32_t average_packets(const struct ccbpf_aqm_config *config)
{
	return 1u << (config->average_shift < CCBPF_AQM_SHIFT_MOST ? config->average_shift
								   : CCBPF_AQM_SHIFT_MOST);
}

const char *aqm_weight(const struct ccbpf_aqm_config *config)
{
	uint32_t packets = average_packets(config);

	return text("average over %u packet%s", packets, packets == 1 ? "" : "s");
}

static uint32_t part_of(uint32_t bytes, uint32_t part)
{
	return (uint64_t)bytes * part / CCBPF_AQM_WHOLE;
}

static const char *dscps(const struct ccbpf_aqm_config *config, enum ccbpf_aqm_class class)
{
	char list[TEXT_MOST] = "";

	if (class == CCBPF_AQM_standard)
		return "others";
	for (int i = 0; i < CCBPF_AQM_DSCPS; i++)
		if (config->dscps[class] >> i & 1)
			append(list, sizeof(list), ",", "%d", i);
	return text("%s", list);
}

static const char *where(const struct ccbpf_aqm_config *config, enum ccbpf_aqm_class class)
{
	uint32_t min, max;

	if (class == CCBPF_AQM_probe)
		return text("above %u bytes, now", config->packet_bytes);
	if (!thresholds(config, class, &min, &max))
		return "never";
	if (min == max)
		return text("above %u (%s %%)", part_of(config->limit_bytes, min),
			    aqm_percent(min));
	return text("%u to %u (%s to %s %%)", part_of(config->limit_bytes, min),
		    part_of(config->limit_bytes, max), aqm_percent(min), aqm_percent(max));
}

static void print_classes(const struct aqm_view *view)
{
	static const struct column columns[] = {
		{ .title = "CLASS" },
		{ .title = "DSCP", .elastic = true },
		{ .title = "MARKED WHERE", .elastic = true },
		{ .title = "PACKETS", .right = true },
		{ .title = "BYTES", .right = true },
		{ .title = "MARKED", .right = true },
		{ .title = "DROPPED", .right = true },
	};
	struct table *table = table_new(columns, 7);

	for (int i = 0; i < CCBPF_AQM_CLASS_COUNT; i++) {
		const struct ccbpf_aqm_count *c = &view->counts.of[i];

		table_cell(table, "%s", class_names[i]);
		table_cell(table, "%s", dscps(&view->config, i));
		table_cell(table, "%s", where(&view->config, i));
		table_cell(table, "%llu", (unsigned long long)c->packets);
		table_cell(table, "%llu", (unsigned long long)c->bytes);
		table_cell(table, "%llu", (unsigned long long)c->marked);
		table_cell(table, "%llu", (unsigned long long)c->dropped);
	}
	table_print(table);
}

/* Least bytes that wait in bucket i. */
static uint64_t bucket_from(int i)
{
	return i ? 1ULL << (i - 1) : 0;
}

static void print_histogram(const struct ccbpf_aqm_counts *counts)
{
	static const struct column columns[] = {
		{ .title = "QUEUE bytes", .right = true },
		{ .title = "PACKETS THAT FOUND IT", .right = true },
	};
	struct table *table = table_new(columns, 2);
	int most = 0;

	for (int i = 0; i < CCBPF_AQM_BUCKETS; i++)
		if (counts->histogram[i])
			most = i;
	for (int i = 0; i <= most; i++) {
		if (!counts->histogram[i])
			continue;
		table_cell(table, i ? "below %llu" : "%llu",
			   (unsigned long long)bucket_from(i ? i + 1 : 0));
		table_cell(table, "%llu", (unsigned long long)counts->histogram[i]);
	}
	table_print(table);
}

static double average_bytes(const struct aqm_view *view)
{
	return view->state.average_q16 / 65536.0;
}

static const char *queue_name(const struct aqm_view *view)
{
	const char *kind = !view->here ? "?" : *view->queue.kind ? view->queue.kind : "no queue";

	return view->config.leaf ? text("%s of class %s", kind, aqm_classid(view->config.leaf))
				 : kind;
}

static const char *attachment(const struct tchook *aqm)
{
	return aqm->attachment.by_link ? text("TCX link %u", aqm->attachment.link_id)
				       : text("filter, program %u", aqm->attachment.held_id);
}

static void print_notes(const struct aqm_view *view)
{
	if (view->unseen)
		printf("%s: the device sends packets and nf_red sees none, because a program before it ends their processing "
		       "(`bpftool net show dev %s`, `tc filter show dev %s egress`); `ccbpf aqm detach` and `attach` put nf_red first\n",
		       view->device, view->device, view->device);
	if (view->counts.blind)
		output_line("%s: %llu packets met a lock-free queue, whose length cannot be read",
			    view->device, (unsigned long long)view->counts.blind);
	if (view->queue.lock_free)
		output_line(
			"%s: its queue, pfifo_fast, is lock-free: its length and the average are unknown; "
			"`tc qdisc replace dev %s root bfifo limit BYTES`",
			view->device, view->device);
	if (view->here && view->packet_bytes != view->config.packet_bytes)
		output_line(
			"%s: its packets have up to %u bytes now, not %u: `ccbpf aqm set %s` takes that",
			view->device, view->packet_bytes, view->config.packet_bytes, view->device);
	if (strcmp(view->aqm->identity.version, CCBPF_VERSION))
		output_line("%s: attached by ccbpf %s, this is %s: detach and attach it",
			    view->device, view->aqm->identity.version, CCBPF_VERSION);
}

void aqm_print(const struct aqm_view *view)
{
	const struct ccbpf_aqm_identity *id = &view->aqm->identity;

	output_line("%s: %s, limit %u bytes, %s; %s, since %s%s", view->device, queue_name(view),
		    view->config.limit_bytes, aqm_weight(&view->config), attachment(view->aqm),
		    human_age(age_ns(id->instance)),
		    view->here ? "" : text(",%s", netns_place(id->netns)));
	output_line("%s: %sthe last packet found %u, the average is %.1f", view->device,
		    view->here ? text("%u bytes wait now, ", view->queue.backlog_bytes) : "",
		    view->state.backlog_bytes, average_bytes(view));
	print_classes(view);
	print_histogram(&view->counts);
	print_notes(view);
}

/* --- JSON ------------------------------------------------------------------ */

static struct json_object *percent_json(uint32_t part)
{
	return json_object_new_double_s(part / 1e3, aqm_percent(part));
}

static struct json_object *class_json(const struct aqm_view *view, enum ccbpf_aqm_class class)
{
	const struct ccbpf_aqm_config *config = &view->config;
	const struct ccbpf_aqm_count *c = &view->counts.of[class];
	struct json_object *doc = json_object_new_object(), *list = NULL;
	uint32_t min, max;
	bool has = thresholds(config, class, &min, &max);

	if (class != CCBPF_AQM_standard)
		list = json_object_new_array();
	for (int i = 0; list && i < CCBPF_AQM_DSCPS; i++)
		if (config->dscps[class] >> i & 1)
			json_object_array_add(list, json_object_new_int(i));
	json_object_object_add(doc, "dscp", list);
	json_object_object_add(doc, "min_percent", has ? percent_json(min) : NULL);
	json_object_object_add(doc, "max_percent", has ? percent_json(max) : NULL);
	add_number(doc, "packets", c->packets);
	add_number(doc, "bytes", c->bytes);
	add_number(doc, "marked", c->marked);
	add_number(doc, "dropped", c->dropped);
	return doc;
}

static struct json_object *histogram_json(const struct ccbpf_aqm_counts *counts)
{
	struct json_object *list = json_object_new_array();

	for (int i = 0; i < CCBPF_AQM_BUCKETS; i++) {
		struct json_object *bucket = json_object_new_object();

		add_number(bucket, "from_bytes", bucket_from(i));
		add_number(bucket, "packets", counts->histogram[i]);
		json_object_array_add(list, bucket);
	}
	return list;
}

static struct json_object *number_or_null(bool known, uint64_t value)
{
	return known ? json_object_new_uint64(value) : NULL;
}

static void add_config(struct json_object *doc, const struct ccbpf_aqm_config *config)
{
	add_number(doc, "limit_bytes", config->limit_bytes);
	add_number(doc, "packet_bytes", config->packet_bytes);
	add_number(doc, "packet_ns", config->packet_ns);
	add_number(doc, "average_packets", average_packets(config));
	add_text(doc, "class", config->leaf ? aqm_classid(config->leaf) : NULL);
}

struct json_object *aqm_json(const struct aqm_view *view)
{
	const struct tchook *aqm = view->aqm;
	struct json_object *doc = json_object_new_object(), *classes = json_object_new_object();

	add_text(doc, "device", view->device);
	add_number(doc, "ifindex", aqm->identity.ifindex);
	add_number(doc, "netns", aqm->identity.netns);
	add_text(doc, "attached", aqm->attachment.by_link ? "tcx" : "clsact");
	json_object_object_add(doc, "link_id",
			       number_or_null(aqm->attachment.by_link, aqm->attachment.link_id));
	add_number(doc, "program_id", aqm->attachment.held_id);
	json_object_object_add(doc, "age_s",
			       json_object_new_double(age_ns(aqm->identity.instance) / 1e9));
	add_text(doc, "version", aqm->identity.version);
	add_text(doc, "qdisc", view->here && *view->queue.kind ? view->queue.kind : NULL);
	add_config(doc, &view->config);
	json_object_object_add(doc, "backlog_bytes",
			       number_or_null(view->here, view->queue.backlog_bytes));
	json_object_object_add(doc, "device_packet_bytes",
			       number_or_null(view->here, view->packet_bytes));
	json_object_object_add(doc, "lock_free",
			       view->here ? json_object_new_boolean(view->queue.lock_free) : NULL);
	json_object_object_add(doc, "unseen",
			       view->here ? json_object_new_boolean(view->unseen) : NULL);
	add_number(doc, "found_bytes", view->state.backlog_bytes);
	json_object_object_add(doc, "average_bytes", json_object_new_double(average_bytes(view)));
	for (int i = 0; i < CCBPF_AQM_CLASS_COUNT; i++)
		json_object_object_add(classes, class_names[i], class_json(view, i));
	json_object_object_add(doc, "classes", classes);
	add_number(doc, "blind", view->counts.blind);
	json_object_object_add(doc, "histogram", histogram_json(&view->counts));
	return doc;
}
