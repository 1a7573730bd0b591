// SPDX-License-Identifier: GPL-2.0-only
/* The runs, for `ccbpf status`: see runs.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/runs.h"
#include "out/human.h"
#include "out/json.h"
#include "out/table.h"
#include "rules/run.h"
#include "sys/cgroup.h"
#include "sys/process.h"
#include "util/clock.h"
#include "util/text.h"

#define NAMED 3 /* processes of a run */

/* A connection that its command has closed is counted and still has a record, until the peer has closed it too. */
static uint64_t sent_by_open(const struct run *run, const struct origins *origins,
			     const struct flow *flows, size_t n_flows)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n_flows; i++) {
		struct origin origin;

		if (origins_find(origins, flows[i].key, &flows[i].record, &origin) &&
		    origin.by == ORIGIN_RUN && origin.id == run->id &&
		    flows[i].record.kind != CCBPF_KIND_rx_le)
			bytes += flows[i].record.bytes_acked;
	}
	return bytes;
}

static unsigned int read_all(struct run **out, const struct origins *origins,
			     const struct flow *flows, size_t n_flows)
{
	unsigned int n = runs_read(out);

	for (unsigned int i = 0; i < n; i++)
		if ((*out)[i].counts.opened > (*out)[i].counts.closed)
			(*out)[i].open_bytes = sent_by_open(&(*out)[i], origins, flows, n_flows);
	return n;
}

struct json_object *runs_json(const struct origins *origins, const struct flow *flows,
			      size_t n_flows)
{
	struct json_object *list = json_object_new_array(), *doc;
	struct run *runs;
	unsigned int n = read_all(&runs, origins, flows, n_flows);

	for (unsigned int i = 0; i < n; i++) {
		doc = run_json(&runs[i]);
		add_number(doc, "open_bytes", runs[i].open_bytes);
		json_object_array_add(list, doc);
	}
	free(runs);
	return list;
}

/* Its account, in the words of the line at the end of `ccbpf run`: a line for each part. */
static void print_account(struct table *table, const struct run *run)
{
	char *part = text("%s", run_words(run)), *next;

	for (; *part; part = next) {
		next = strstr(part, "; ");
		if (next)
			*next = '\0';
		next = next ? next + 2 : part + strlen(part);
		table_note(table, part);
	}
}

/* "in /user.slice/ccbpf-run-1-812: rsync (814), ssh (815), 2 more" */
static void print_place(struct table *table, const struct run *run, unsigned int n,
			const pid_t *pids)
{
	char words[TEXT_MOST];

	snprintf(words, sizeof(words), "in %s", run->about.cgroup);
	for (unsigned int i = 0; i < n && i < NAMED; i++)
		append(words, sizeof(words), i ? ", " : ": ", "%s (%d)", process_name(pids[i]),
		       pids[i]);
	if (n > NAMED)
		append(words, sizeof(words), ", ", "%u more", n - NAMED);
	table_note(table, words);
}

static void print_row(struct table *table, const struct run *run)
{
	pid_t pids[NAMED];
	const char *cgroup = run->about.cgroup;
	unsigned int n = *cgroup ? cgroup_processes(cgroup, pids, NAMED) : 0;

	table_cell(table, "%u", run->id);
	table_cell(table, "%s", run->known ? run->about.command : "?");
	table_styled(table,
		     run->phase == RUN_LED || run->phase == RUN_PREPARED ? STYLE_GOOD : STYLE_BAD,
		     run_phase_word(run->phase));
	table_cell(table, "%s", run->known ? run->about.choice.controller : "?");
	table_cell(table, "%s", run->known ? human_age(age_ns(run->about.started_ns)) : "-");
	table_cell(table, "%u", n);
	print_account(table, run);
	if (*cgroup)
		print_place(table, run, n, pids);
}

void runs_print(const struct origins *origins, const struct flow *flows, size_t n_flows)
{
	static const struct column columns[] = {
		{ .title = "RUN", .right = true },
		{ .title = "COMMAND", .elastic = true },
		{ .title = "STATE" },
		{ .title = "CONTROLLER" },
		{ .title = "SINCE", .right = true },
		{ .title = "PROCESSES", .right = true },
	};
	struct run *runs;
	unsigned int n = read_all(&runs, origins, flows, n_flows);
	struct table *table;

	if (n) {
		table = table_new(columns, 6);
		for (unsigned int i = 0; i < n; i++)
			print_row(table, &runs[i]);
		table_print(table);
	}
	free(runs);
}
