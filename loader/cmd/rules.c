// SPDX-License-Identifier: GPL-2.0-only
/* The standing rules, for `ccbpf assign list` and `ccbpf status`: see rules.h. */
#include <unistd.h>

#include "cc/running.h"
#include "cc/sysdefault.h"
#include "cc/totals.h"
#include "cmd/rules.h"
#include "out/errors.h"
#include "out/human.h"
#include "out/json.h"
#include "out/table.h"
#include "rules/rule.h"
#include "rules/standing.h"
#include "sys/shared.h"
#include "util/text.h"

/* Those of its downloads; zeroes where there were none. */
static struct ccbpf_totals received(int totals_fd, const struct ccbpf_rule *rule)
{
	struct ccbpf_totals totals = { 0 };

	rule_totals_read(totals_fd, rule->made_ns, CCBPF_KIND_rx_le, &totals);
	return totals;
}

/* What the flows of a rule have done and met, those that have ended included. */
static struct json_object *totals_json(struct ccbpf_totals totals)
{
	struct json_object *doc = json_object_new_object();

#define X(name, text) add_number(doc, #name, totals.name);
	CCBPF_TOTALS(X)
#undef X
	return doc;
}

/* null if `totals_fd` is negative. */
static void add_totals(struct json_object *doc, int totals_fd, const struct ccbpf_rule *rule)
{
	struct json_object *sent = NULL, *taken = NULL;

	if (totals_fd >= 0) {
		sent = totals_json(rule_totals_sent(totals_fd, rule->made_ns));
		taken = totals_json(received(totals_fd, rule));
	}
	json_object_object_add(doc, "totals", sent);
	json_object_object_add(doc, "received", taken);
}

int rules_json(const char *what, struct json_object **list)
{
	struct standing standing;
	int totals_fd, err = standing_read(what, &standing);

	*list = json_object_new_array();
	if (err)
		return err;
	totals_fd = shared_open_quietly(SHARED_RULES);
	for (unsigned int i = 0; i < standing.n; i++) {
		struct json_object *rule = rule_json(&standing.rules[i], &standing.counts[i]);

		add_totals(rule, totals_fd, &standing.rules[i]);
		json_object_array_add(*list, rule);
	}
	if (totals_fd >= 0)
		close(totals_fd);
	standing_close(&standing);
	return EXIT_OK;
}

static bool is_enabled(const char *what, const struct controller *c)
{
	struct running running;
	bool enabled;

	if (running_open(what, c, &running))
		return false;
	enabled = running_is_enabled(&running);
	running_close(&running);
	return enabled;
}

const char *rules_absent(const struct ccbpf_rule *rule)
{
	const struct controller *c = controller_find(rule->from);

	if (!(rule->conditions & CCBPF_RULE_FROM) || sysdefault_available(rule->from))
		return NULL;
	return c ? text("%s is not enabled: `ccbpf enable %s`", c->name, c->name)
		 : text("this kernel has no controller %s now", rule->from);
}

/* Why a rule does nothing now, or NULL. */
static const char *idle(const char *what, const struct standing *standing,
			const struct ccbpf_rule *rule)
{
	const struct controller *c = controller_find(rule->choice.controller);
	const char *gone = rule_gone(rule);

	if (standing->detached)
		return "somebody detached the program: the next `ccbpf assign` attaches it again";
	if (gone)
		return text("its %s is gone: `ccbpf assign remove %u`", gone, rule->id);
	if (c && !is_enabled(what, c))
		return text("%s is not enabled: `ccbpf enable %s`", c->name, c->name);
	return rules_absent(rule);
}

static bool receives(const struct standing *standing)
{
	for (unsigned int i = 0; i < standing->n; i++)
		if (standing->rules[i].choice.flags & CCBPF_CHOICE_DOWNLOAD)
			return true;
	return false;
}

/* Under -v, of each direction in which there was a flow. */
static void note_totals(struct table *table, int totals_fd, const struct ccbpf_rule *rule)
{
	struct ccbpf_totals of[2];

	if (!output.verbose || totals_fd < 0)
		return;
	of[0] = rule_totals_sent(totals_fd, rule->made_ns);
	of[1] = received(totals_fd, rule);
	for (int i = 0; i < 2; i++)
		if (of[i].flows)
			table_note(table,
				   text("%s %s; yielded %s of %s", i ? "received" : "sent",
					human_bytes(of[i].bytes_acked), human_age(of[i].yielded_ns),
					human_age(of[i].sending_ns)));
}

static void print_row(const char *what, struct table *table, const struct standing *standing,
		      unsigned int i, int totals_fd)
{
	const struct ccbpf_rule *rule = &standing->rules[i];
	const struct ccbpf_choice_counts *counts = &standing->counts[i];
	bool exempt = rule->choice.flags & CCBPF_CHOICE_EXEMPT;
	const char *why = idle(what, standing, rule);

	table_cell(table, "%u", rule->id);
	table_cell(table, "%s", rule_origin(rule));
	table_cell(table, "%s", rule_choice_text(rule));
	table_cell(table, "%s", rule_conditions_text(rule));
	table_cell(table, "%llu", (unsigned long long)(exempt ? counts->exempt : counts->set));
	table_cell(table, "%llu", (unsigned long long)counts->kept);
	table_cell(table, "%llu", (unsigned long long)counts->refused);
	if (receives(standing))
		table_cell(table, "%llu", (unsigned long long)counts->receivers);
	if (why)
		table_note(table, why);
	note_totals(table, totals_fd, rule);
}

int rules_print(const char *what, bool none)
{
	static const struct column columns[] = {
		{ .title = "RULE", .right = true },
		{ .title = "BY" },
		{ .title = "GIVES" },
		{ .title = "TO", .elastic = true },
		{ .title = "CONNECTIONS", .right = true },
		{ .title = "KEPT", .right = true }, /* what their program had chosen */
		{ .title = "REFUSED", .right = true }, /* and went on with their default */
		{ .title = "DOWNLOADS", .right = true }, /* only if a rule is for them */
	};
	struct standing standing;
	int totals_fd, err = standing_read(what, &standing);
	struct table *table;

	if (err)
		return err;
	totals_fd = shared_open_quietly(SHARED_RULES);
	if (standing.n) {
		table = table_new(columns, receives(&standing) ? 8 : 7);
		for (unsigned int i = 0; i < standing.n; i++)
			print_row(what, table, &standing, i, totals_fd);
		table_print(table);
	} else if (none) {
		output_line("there are no rules");
	}
	if (totals_fd >= 0)
		close(totals_fd);
	standing_close(&standing);
	return EXIT_OK;
}
