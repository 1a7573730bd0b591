// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf status [NAME…]: what runs. For each controller: state, link, age,
 * version, parameters that differ from their defaults, flows now, flows that
 * older loadings still serve, to how many a rule, a run or a unit gave it, the sums of the
 * statistics; then the rules, the units, the commands of `ccbpf run`, the gateways, the queues and the sysctls. Without
 * a name it reports whatever is not absent; with a name that has nothing to report it ends with exit code 5.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cc/flows.h"
#include "cc/running.h"
#include "sys/shared.h"
#include "cc/stats.h"
#include "cc/sysdefault.h"
#include "cc/sysecn.h"
#include "cmd/aqm/verbs.h"
#include "cmd/gateway/verbs.h"
#include "cmd/givers.h"
#include "cmd/rules.h"
#include "cmd/runs.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "out/errors.h"
#include "out/human.h"
#include "out/json.h"
#include "out/table.h"
#include "rules/units.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/clock.h"
#include "util/text.h"

#define WHAT "show"

/* Everything about one controller. */
struct report {
	struct running running;
	struct values values;
	bool have_values;
	struct flow_counts counts;
	struct givers givers;
	struct ccbpf_stats stats;
	bool have_stats;
	bool is_default;
	bool lingers; /* it is the default, but not registered: disabled under it */
};

/* The shared maps, as far as they are there. */
struct sources {
	struct flow *flows;
	size_t n_flows;
	struct origins origins;
	int stats_fd;
};

static int open_sources(struct sources *sources)
{
	int err, fd;

	sources->stats_fd = -1;
	origins_read(&sources->origins);
	err = shared_open(WHAT, SHARED_FLOWS, &fd);
	if (err || fd < 0)
		return err;
	err = flows_read(fd, &sources->flows, &sources->n_flows);
	close(fd);
	if (err)
		return fail_errno(WHAT, pin_path(shared_name(SHARED_FLOWS), NULL), err);
	return shared_open(WHAT, SHARED_STATS, &sources->stats_fd);
}

static void close_sources(struct sources *sources)
{
	free(sources->flows);
	origins_free(&sources->origins);
	if (sources->stats_fd >= 0)
		close(sources->stats_fd);
}

static int gather(const struct controller *c, const struct sources *sources, struct report *report)
{
	int err;

	memset(report, 0, sizeof(*report));
	err = running_open(WHAT, c, &report->running);
	if (err)
		return err;
	if (report->running.params_fd >= 0)
		report->have_values = values_read(report->running.params_fd, &report->values) == 0;
	report->counts =
		flows_count(sources->flows, sources->n_flows, c, report->running.identity.instance);
	if (sources->stats_fd >= 0)
		report->have_stats = stats_read(sources->stats_fd, c->kind, &report->stats) == 0;
	report->givers = givers_of(&sources->origins, sources->flows, sources->n_flows, c);
	report->is_default = strcmp(sysdefault_now(), c->name) == 0;
	report->lingers = report->is_default && !sysdefault_available(c->name);
	running_close(&report->running);
	return EXIT_OK;
}

static bool worth_reporting(const struct report *report)
{
	return report->running.attachment.state != ATTACHMENT_ABSENT || report->counts.draining ||
	       report->lingers;
}

/* The state's word: who is disabled while flows finish is "draining". */
static const char *state_word(const struct report *report)
{
	if (report->running.attachment.state == ATTACHMENT_ABSENT && report->counts.draining)
		return "draining";
	return running_word(&report->running);
}

static bool outdated(const struct report *report)
{
	return running_is_enabled(&report->running) &&
	       strcmp(report->running.identity.version, CCBPF_VERSION) != 0;
}

/* An id or instance; 0, which is none, becomes null. */
static void add_id(struct json_object *doc, const char *key, __u64 id)
{
	json_object_object_add(doc, key, id ? json_object_new_uint64(id) : NULL);
}

static struct json_object *describe(const struct report *report)
{
	const struct running *running = &report->running;
	const struct controller *c = running->controller;
	const struct ccbpf_identity *id = &running->identity;
	struct json_object *doc = json_object_new_object();
	struct json_object *age = NULL, *params = NULL, *changed = NULL;

	if (id->instance)
		age = json_object_new_double(age_ns(id->instance) / 1e9);
	if (report->have_values) {
		params = values_json(c, &report->values, false);
		changed = values_json(c, &report->values, true);
	}
	add_text(doc, "name", c->name);
	add_text(doc, "state", state_word(report));
	add_bool(doc, "default", report->is_default);
	add_id(doc, "link_id", running->attachment.link_id);
	add_id(doc, "map_id", running->attachment.held_id);
	add_id(doc, "instance", id->instance);
	json_object_object_add(doc, "age_s", age);
	add_text(doc, "version", id->instance ? id->version : NULL);
	add_bool(doc, "outdated", outdated(report));
	add_number(doc, "flows", report->counts.now);
	add_number(doc, "draining", report->counts.draining);
	json_object_object_add(doc, "origins", givers_json(&report->givers));
	json_object_object_add(doc, "params", params);
	json_object_object_add(doc, "changed", changed);
	json_object_object_add(doc, "stats",
			       report->have_stats ? stats_json(&report->stats) : NULL);
	return doc;
}

static void print_lingers(const char *name)
{
	output_line(
		"%s: disabled, but still the default: new connections get it until `sysctl net.ipv4.tcp_congestion_control=NAME`",
		name);
}

static void print_hints(const struct report *report)
{
	const struct running *running = &report->running;
	const char *name = running->controller->name;

	if (outdated(report))
		output_line("%s: loaded by ccbpf %s, this is %s: `ccbpf reload %s`", name,
			    *running->identity.version ? running->identity.version
						       : "of another layout",
			    CCBPF_VERSION, name);
	if (report->lingers)
		print_lingers(name);
	if (running->attachment.state == ATTACHMENT_STALE)
		output_line("%s: an interrupted ccbpf left its pins: `ccbpf clean`, or enable it",
			    name);
	if (running->attachment.state == ATTACHMENT_DETACHED)
		output_line("%s: somebody detached its link: `ccbpf clean`, or enable it", name);
	if (running->attachment.state == ATTACHMENT_UNREADABLE)
		output_line("%s: what is pinned is no controller's link: `ccbpf clean --all`",
			    name);
	if (running_is_enabled(running) && !report->have_values)
		output_line("%s: its parameters cannot be read: `ccbpf reload %s`", name, name);
	if (report->have_values && *values_text(running->controller, &report->values))
		output_line("%s: set to %s", name,
			    values_text(running->controller, &report->values));
}

/* One row of the statistics, unless it is zero everywhere. */
static void print_stat(struct table *table, const struct report *reports, unsigned int n,
		       const char *title, size_t offset)
{
	__u64 values[CCBPF_KINDS], any = 0;

	for (unsigned int i = 0; i < n; i++) {
		memcpy(&values[i], (const char *)&reports[i].stats + offset, sizeof(values[i]));
		any |= values[i];
	}
	if (!any)
		return;
	table_cell(table, "%s", title);
	for (unsigned int i = 0; i < n; i++)
		table_cell(table, "%llu", (unsigned long long)values[i]);
}

/* The statistics: a column for each controller. */
static void print_stats(const struct report *reports, unsigned int n)
{
	struct column columns[1 + CCBPF_KINDS] = { { .title = "COUNTED", .elastic = true } };
	struct table *table;

	for (unsigned int i = 0; i < n; i++)
		columns[1 + i] = (struct column){ .title = reports[i].running.controller->name,
						  .right = true };
	table = table_new(columns, 1 + n);
#define X(name, text) print_stat(table, reports, n, text, offsetof(struct ccbpf_stats, name));
	CCBPF_STATS(X)
#undef X
	table_print(table);
}

static void print(const struct report *reports, unsigned int n)
{
	static const struct column columns[] = {
		{ .title = "CONTROLLER" },
		{ .title = "STATE" },
		{ .title = "LINK", .right = true },
		{ .title = "SINCE", .right = true },
		{ .title = "VERSION" },
		{ .title = "DEFAULT" },
		{ .title = "FLOWS", .right = true },
		{ .title = "DRAINING", .right = true },
	};
	struct table *table = table_new(columns, 8);

	for (unsigned int i = 0; i < n; i++) {
		const struct running *running = &reports[i].running;
		bool enabled = running_is_enabled(running);

		table_cell(table, "%s", running->controller->name);
		table_styled(table, enabled ? STYLE_GOOD : STYLE_BAD, state_word(&reports[i]));
		table_cell(table, "%s",
			   enabled && running->attachment.by_link
				   ? text("%u", running->attachment.link_id)
				   : "-");
		table_cell(table, "%s",
			   running->identity.instance
				   ? human_age(age_ns(running->identity.instance))
				   : "-");
		table_cell(table, "%s", enabled ? running->identity.version : "-");
		table_cell(table, "%s", reports[i].is_default ? "yes" : "no");
		table_cell(table, "%zu", reports[i].counts.now);
		table_cell(table, "%zu", reports[i].counts.draining);
	}
	table_print(table);
	for (unsigned int i = 0; i < n; i++)
		print_hints(&reports[i]);
	for (unsigned int i = 0; i < n; i++)
		givers_print(reports[i].running.controller, &reports[i].givers);
	print_stats(reports, n);
}

static void print_moved(const struct origins *origins)
{
	size_t now = origins_count(origins, ORIGIN_RENICE);

	if (now)
		output_line("renice: %zu connection%s in the background", now,
			    now == 1 ? " receives" : "s receive");
}

static void print_none(void)
{
	output_line("no controller is enabled");
	if (controller_find(sysdefault_now()) && !sysdefault_available(sysdefault_now()))
		print_lingers(sysdefault_now());
}

static void show(const struct sources *sources, const struct report *reports, unsigned int n)
{
	const char *previous = sysdefault_previous(), *ecn_before = sysecn_previous();
	struct json_object *doc, *list, *rules;

	if (!output.json) {
		if (n)
			print(reports, n);
		else
			print_none();
		rules_print(WHAT, false);
		units_print();
		runs_print(&sources->origins, sources->flows, sources->n_flows);
		print_moved(&sources->origins);
		gateways_print();
		aqms_print(WHAT);
		output_line("default: %s%s%s", sysdefault_now(), previous ? ", before: " : "",
			    previous ?: "");
		if (ecn_before)
			output_line("ecn: %s, before: %s", sysecn_value(), ecn_before);
		sweep_note_foreign();
		return;
	}
	doc = json_object_new_object();
	list = json_object_new_array();
	add_text(doc, "pin_root", pins_root());
	add_text(doc, "default", sysdefault_now());
	add_text(doc, "default_before", previous);
	add_text(doc, "ecn", *sysecn_value() ? sysecn_value() : NULL);
	add_text(doc, "ecn_before", ecn_before);
	for (unsigned int i = 0; i < n; i++)
		json_object_array_add(list, describe(&reports[i]));
	json_object_object_add(doc, "controllers", list);
	rules_json(WHAT, &rules);
	json_object_object_add(doc, "rules", rules);
	json_object_object_add(doc, "units", units_json());
	json_object_object_add(doc, "runs",
			       runs_json(&sources->origins, sources->flows, sources->n_flows));
	add_number(doc, "renice_receives", origins_count(&sources->origins, ORIGIN_RENICE));
	json_object_object_add(doc, "gateways", gateways_json());
	json_object_object_add(doc, "queues", aqms_json(WHAT));
	json_object_object_add(doc, "foreign", sweep_foreign());
	output_json(doc);
}

/*
 * Gather the named ones (which must have something to report), or all that
 * have.
 */
static int gather_named(const struct controller **named, unsigned int n, struct sources *sources,
			struct report *reports, unsigned int *found)
{
	int err = open_sources(sources);

	for (unsigned int i = 0; !err && i < (n ?: n_controllers); i++) {
		struct report *report = &reports[*found];

		err = gather(n ? named[i] : &controllers[i], sources, report);
		if (!err && worth_reporting(report)) {
			(*found)++;
			continue;
		}
		givers_free(&report->givers);
		if (!err && n)
			err = running_absent(WHAT, &report->running);
	}
	return err;
}

static int status(const struct request *request)
{
	const struct controller *named[CCBPF_KINDS];
	struct report reports[CCBPF_KINDS];
	struct sources sources = { .stats_fd = -1 };
	unsigned int n, found = 0;
	bool exists;
	int err = request_controllers(request, 0, named, &n, NULL);

	if (!err)
		err = kernel_require_reading(WHAT, NULL);
	if (!err)
		err = pins_lock_read(WHAT, &exists);
	if (err)
		return err;
	if (exists)
		err = gather_named(named, n, &sources, reports, &found);
	else if (n)
		err = running_absent(WHAT, &(struct running){ .controller = named[0] });
	if (!err)
		show(&sources, reports, found);
	close_sources(&sources);
	for (unsigned int i = 0; i < found; i++)
		givers_free(&reports[i].givers);
	pins_unlock();
	return err;
}

const struct command cmd_status = {
	.name = "status",
	.args = "[NAME...]",
	.text = "Show enabled controllers and their counters",
	.run = status,
};
