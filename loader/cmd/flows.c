// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf flows [NAME…] [--watch SECONDS] [--record FILE] [-v]: the live flows, as the controllers
 * publish them, and which rule, run or unit gave them their controller; with -v what each knows and
 * met, and its process, in lines more. With --watch again and again until Ctrl-C: in place on a
 * terminal, one below the other elsewhere, one JSON document a line under -j:
 * {"time_ns": the host's CLOCK_MONOTONIC, "unstamped": [{…}], "flows": [{…}]}. --record writes these lines
 * to a file, for `ccbpf plot`. A connection that has no TCP timestamps is not received in the background
 * and has no record: there is only how many, by what is for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cc/flowjson.h"
#include "cc/flowtext.h"
#include "cc/running.h"
#include "sys/shared.h"
#include "cmd/recording.h"
#include "commands.h"
#include "out/errors.h"
#include "out/human.h"
#include "out/json.h"
#include "out/table.h"
#include "out/ticker.h"
#include "rules/origins.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/clock.h"
#include "util/text.h"

#define WHAT "show"

enum own_option {
	OWN_RECORD,
};

static int by_start(const void *a, const void *b)
{
	const struct ccbpf_flow *x = &((const struct flow *)a)->record,
				*y = &((const struct flow *)b)->record;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->started_ns < y->started_ns ? -1 : x->started_ns > y->started_ns;
}

static bool wanted(const struct flow *flow, const struct flow_kind *const *named, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (flow->record.kind == named[i]->kind)
			return true;
	return n == 0;
}

static void print_row(struct table *table, const struct flow *flow, struct origins *origins,
		      bool by)
{
	struct origin origin;
	bool known = origins_find(origins, flow->key, &flow->record, &origin);
	const struct ccbpf_flow *f = &flow->record;
	const char *words;

	table_cell(table, "%.*s", CCBPF_NAME_LEN, f->controller);
	table_cell(table, "%s", endpoint(f->family, f->local_addr, f->local_port));
	table_cell(table, "%s", endpoint(f->family, f->remote_addr, f->remote_port));
	table_cell(table, "%s", phase_word(f->phase));
	table_cell(table, "%u", f->cwnd);
	table_cell(table, "%s", human_ms(f->rtt_us));
	table_cell(table, "%s/%s", human_ms(f->delay_smoothed_us), human_ms(f->delay_threshold_us));
	table_cell(table, "%s", human_bps(f->rate_bps));
	table_cell(table, "%s", human_age(age_ns(f->started_ns)));
	if (by)
		table_cell(table, "%s", known ? origin_name(&origin) : "-");
	if (!output.verbose)
		return;
	table_note(table, flow_own_words(f));
	table_note(table, flow_met_words(f));
	words = origins_words(origins, flow->key, &flow->record);
	if (words)
		table_note(table, words);
}

static bool any_origin(const struct flow *flows, size_t n, const struct origins *origins)
{
	struct origin origin;

	for (size_t i = 0; i < n; i++)
		if (origins_find(origins, flows[i].key, &flows[i].record, &origin))
			return true;
	return false;
}

static void print_unstamped(const struct origins *origins)
{
	const char *words = origins_unstamped_words(origins);

	if (words)
		output_line("without TCP timestamps, so received as usual: %s", words);
}

static void print(const struct flow *flows, size_t n, struct origins *origins)
{
	static const struct column columns[] = {
		{ .title = "CONTROLLER" },
		{ .title = "LOCAL", .elastic = true },
		{ .title = "REMOTE", .elastic = true },
		{ .title = "PHASE" },
		{ .title = "CWND", .right = true },
		{ .title = "RTT ms", .right = true },
		{ .title = "DELAY ms", .right = true }, /* smoothed/threshold */
		{ .title = "BIT/S", .right = true },
		{ .title = "AGE", .right = true },
		{ .title = "BY" }, /* only if something gave it to one of them */
	};
	bool by = any_origin(flows, n, origins);
	struct table *table = table_new(columns, by ? 10 : 9);
	const struct text_block *mark = text_mark();

	for (size_t i = 0; i < n; i++) {
		print_row(table, &flows[i], origins, by);
		text_release(mark); /* the table has copies */
	}
	table_print(table);
	output_line("%zu flow%s%s", n, n == 1 ? "" : "s",
		    n && !output.verbose ? " (-v: each controller's state and counters)" : "");
}

static struct json_object *describe(const struct flow *flow, struct origins *origins)
{
	struct json_object *doc = flow_json(flow);
	struct origin origin;
	bool known = origins_find(origins, flow->key, &flow->record, &origin);

	json_object_object_add(doc, "origin", known ? origin_json(origins, &origin) : NULL);
	return doc;
}

/* `receives`: what is received is asked for. */
static void show(const struct flow *flows, size_t n, struct origins *origins, bool receives)
{
	const struct text_block *mark = text_mark();
	struct json_object *doc;
	struct json_list *list;

	if (!output.json) {
		print(flows, n, origins);
		if (receives)
			print_unstamped(origins);
		return;
	}
	doc = json_object_new_object();
	add_number(doc, "time_ns", monotonic_ns());
	json_object_object_add(doc, "unstamped",
			       receives ? origins_unstamped_json(origins)
					: json_object_new_array());
	json_object_object_add(doc, "flows", json_object_new_array());
	list = output_json_open(doc);
	for (size_t i = 0; i < n; i++) {
		output_json_item(list, describe(&flows[i], origins));
		text_release(mark);
	}
	output_json_close(list);
}

/*
 * Read the map as it is pinned now; `*found` false: nothing is pinned. The lock
 * is not kept.
 */
static int read_now(struct flow **flows, size_t *n, struct origins *origins, bool *found)
{
	bool exists;
	int fd = -1, err = pins_lock_read(WHAT, &exists);

	*flows = NULL;
	*n = 0;
	if (!err && exists)
		err = shared_open(WHAT, SHARED_FLOWS, &fd);
	*found = fd >= 0;
	if (*found)
		origins_read(origins);
	pins_unlock();
	if (err || fd < 0)
		return err;
	err = flows_read(fd, flows, n);
	close(fd);
	return err ? fail_errno(WHAT, pin_path(shared_name(SHARED_FLOWS), NULL), err) : EXIT_OK;
}

/* What is asked for. */
struct view {
	const struct flow_kind *named[CCBPF_KINDS];
	unsigned int n_named;
	bool shown; /* then it goes on, whatever is disabled */
};

static bool asks_for(const struct view *view, enum ccbpf_kind kind)
{
	const struct flow any = { .record.kind = kind };

	return wanted(&any, view->named, view->n_named);
}

static int show_now(void *data)
{
	struct view *view = data;
	struct origins origins = { 0 };
	struct flow *flows;
	size_t n, kept = 0;
	bool found;
	int err = read_now(&flows, &n, &origins, &found);

	if (!err && !found && !view->shown)
		err = running_none(WHAT, "flows");
	for (size_t i = 0; !err && i < n; i++)
		if (wanted(&flows[i], view->named, view->n_named))
			flows[kept++] = flows[i];
	if (!err) {
		if (kept)
			qsort(flows, kept, sizeof(*flows), by_start);
		show(flows, kept, &origins, asks_for(view, CCBPF_KIND_rx_le));
		view->shown = true;
	}
	if (found)
		origins_free(&origins);
	free(flows);
	return err;
}

/* What is shown goes into this file from now on, as JSON. Addresses are in it: it is its owner's. */
static int record_to(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), err = 0;

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
		err = fail_file("record", path, errno, REMEDY_WRITE);
	if (fd >= 0)
		close(fd);
	output.recorded = !output.json;
	output.json = true;
	output.pretty = false;
	if (!err)
		fprintf(stderr, "recording until Ctrl-C; then: ccbpf plot %s\n", path);
	return err;
}

static int flows(const struct request *request)
{
	const char *record = request->own[OWN_RECORD];
	uint64_t every_ns = request->watch_ns ?: (record ? RECORD_NS : 0);
	struct view view = { 0 };
	int err = request_flow_kinds(request, view.named, &view.n_named);

	if (!err)
		err = kernel_require_reading(WHAT, NULL);
	if (!err && record)
		err = running_require_flows(WHAT);
	if (!err && record)
		err = record_to(record);
	if (!err)
		err = ticker_repeat(WHAT, every_ns, show_now, &view);
	return err;
}

static const struct argp_option options[] = {
	{ "watch", OPTION_WATCH, "SECONDS", 0, "repeat every SECONDS until Ctrl-C", 0 },
	{ "record", OPTION_OWN + OWN_RECORD, "FILE", 0,
	  "until Ctrl-C, every 0.1 s (or as --watch says): JSON lines into FILE, for `ccbpf plot`",
	  0 },
	{ 0 },
};

const struct command cmd_flows = {
	.name = "flows",
	.args = "[NAME...] [--watch SECONDS] [--record FILE]",
	.text = "Show the live flows",
	.more = "DELAY: smoothed queueing delay / threshold of an early congestion indication. BY: the rule or "
		"run that gave the flow its controller or holds its receive window, or systemd, renice, or a gateway. With -v more lines for each flow: the state of its controller, its "
		"counters, its cgroup and process. With -j every field of struct ccbpf_flow.",
	.options = options,
	.run = flows,
};
