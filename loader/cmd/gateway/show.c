// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf gateway show [DEV]: what a gateway holds now, and what it has done since it was attached:
 * {"time_ns": the host's CLOCK_MONOTONIC, "gateways": [{...}]}, one document a line with --watch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cc/flows.h"
#include "cmd/gateway/verbs.h"
#include "cmd/verbs.h"
#include "out/errors.h"
#include "out/human.h"
#include "out/json.h"
#include "out/output.h"
#include "out/table.h"
#include "sys/netns.h"
#include "sys/pins.h"
#include "sys/prefix.h"
#include "sys/shared.h"
#include "util/clock.h"
#include "util/text.h"

/* What there is to say of one. */
struct view {
	const struct ccbpf_aqm_identity *identity;
	const struct gateway *gateway;
	struct ccbpf_gateway_config config;
	struct ccbpf_gateway_counts counts;
	size_t connections, downloads, held; /* now */
};

static void count_downloads(struct view *view)
{
	int fd = shared_open_quietly(SHARED_FLOWS);
	struct flow *flows = NULL;
	size_t n = 0;

	if (fd < 0)
		return;
	if (flows_read(fd, &flows, &n))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		const struct ccbpf_flow *f = &flows[i].record;

		if (f->instance != gateway_instance(view->config.id))
			continue;
		view->downloads++;
		view->held += f->phase == CCBPF_PHASE_INFERENCE || f->phase == CCBPF_PHASE_SMALL;
	}
	free(flows);
	close(fd);
}

static int look(const char *what, const struct gateway *gateway, struct view *view)
{
	int err;

	*view = (struct view){ .identity = gateway_identity(gateway), .gateway = gateway };
	err = gateway_read_config(what, gateway, &view->config);
	if (!err)
		err = gateway_read_counts(what, gateway, &view->counts);
	if (err)
		return err;
	view->connections = gateway_connections(gateway);
	count_downloads(view);
	return EXIT_OK;
}

static const char *prefixes(const struct ccbpf_prefix *of, uint32_t n)
{
	char words[TEXT_MOST] = "";

	for (uint32_t i = 0; i < n; i++)
		append(words, sizeof(words), ", ", "%s", prefix_text(&of[i]));
	return n ? text("%s", words) : "any";
}

static void print(const struct view *view)
{
	static const struct column columns[] = { { .title = "COUNTED", .elastic = true },
						 { .title = "", .right = true } };
	struct table *table = table_new(columns, 2);

	output_line("%s%s: the gateway, since %s; hosts: %s; remotes: %s", view->identity->device,
		    netns_place(view->identity->netns), human_age(age_ns(view->identity->instance)),
		    prefixes(view->config.hosts, view->config.n_hosts),
		    prefixes(view->config.remotes, view->config.n_remotes));
	output_line("%zu connection%s, %zu download%s, %zu held back now", view->connections,
		    view->connections == 1 ? "" : "s", view->downloads,
		    view->downloads == 1 ? "" : "s", view->held);
#define X(name, what)                  \
	table_cell(table, "%s", what); \
	table_cell(table, "%llu", (unsigned long long)view->counts.name);
	CCBPF_GATEWAY_COUNTS(X)
#undef X
	table_print(table);
}

static struct json_object *prefixes_json(const struct ccbpf_prefix *of, uint32_t n)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0; i < n; i++)
		json_object_array_add(list, json_text(prefix_text(&of[i])));
	return list;
}

static struct json_object *describe(const struct view *view)
{
	struct json_object *doc = json_object_new_object(), *counts = json_object_new_object();
	const struct attachment *in = &view->gateway->in.attachment,
				*out = &view->gateway->out.attachment;

	add_text(doc, "device", view->identity->device);
	add_number(doc, "ifindex", view->identity->ifindex);
	add_number(doc, "netns", view->identity->netns);
	add_number(doc, "id", view->config.id);
	add_text(doc, "held_by", out->by_link ? "link" : "program");
	add_number(doc, "in_id", in->by_link ? in->link_id : in->held_id);
	add_number(doc, "out_id", out->by_link ? out->link_id : out->held_id);
	json_object_object_add(doc, "age_s",
			       json_object_new_double(age_ns(view->identity->instance) / 1e9));
	add_text(doc, "version", view->identity->version);
	json_object_object_add(doc, "hosts",
			       prefixes_json(view->config.hosts, view->config.n_hosts));
	json_object_object_add(doc, "remotes",
			       prefixes_json(view->config.remotes, view->config.n_remotes));
	add_number(doc, "connections", view->connections);
	add_number(doc, "downloads", view->downloads);
	add_number(doc, "held", view->held);
#define X(name, what) add_number(counts, #name, view->counts.name);
	CCBPF_GATEWAY_COUNTS(X)
#undef X
	json_object_object_add(doc, "counts", counts);
	return doc;
}

int gateway_show(const char *what, const struct gateway *found, unsigned int n)
{
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();
	unsigned int shown = 0;
	int err = EXIT_OK;

	add_number(doc, "time_ns", monotonic_ns());
	json_object_object_add(doc, "gateways", list);
	for (unsigned int i = 0; !err && i < n; i++) {
		enum attachment_state state = gateway_state(&found[i]);
		struct view view;

		if (state != ATTACHMENT_HELD) {
			note(gateway_device(&found[i]), gateway_state_text(&found[i]),
			     state == ATTACHMENT_UNREADABLE ? "`ccbpf clean --all` removes it"
							    : "`ccbpf clean` removes it");
			continue;
		}
		err = look(what, &found[i], &view);
		if (err)
			break;
		if (!output.json && shown++)
			output_line("%s", "");
		if (output.json)
			json_object_array_add(list, describe(&view));
		else
			print(&view);
	}
	return output_answer(err, doc);
}

static int show_all(const char *what)
{
	struct gateway *found;
	unsigned int n;
	int err = gateway_open_all(what, &found, &n);

	if (!err)
		err = gateway_show(what, found, n);
	if (!err && !n && !output.json)
		output_line("no device has a gateway");
	for (unsigned int i = 0; i < n; i++)
		gateway_close(&found[i]);
	free(found);
	return err;
}

static int show_one(const char *what, const char *name)
{
	struct gateway gateway;
	int err = gateway_open_named(what, name, &gateway);

	if (err)
		return err;
	if (gateway_state(&gateway) == ATTACHMENT_HELD)
		err = gateway_show(what, &gateway, 1);
	else
		err = FAIL(EXIT_NOTHING, .what = what, .on = name,
			   .why = gateway_state_text(&gateway),
			   .remedy = "`ccbpf clean` removes what is left");
	gateway_close(&gateway);
	return err;
}

int gateway_verb_show(const struct request *request, const char *what)
{
	static const struct verb_show show = { show_one, show_all };

	return verbs_show(request, what, &show);
}
