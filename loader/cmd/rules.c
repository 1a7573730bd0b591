// SPDX-License-Identifier: GPL-2.0-only
/* The standing rules, for `ccbpf assign list` and `ccbpf status`: see rules.h. */
#include "cc/running.h"
#include "cc/sysdefault.h"
#include "cmd/rules.h"
#include "out/errors.h"
#include "out/table.h"
#include "rules/rule.h"
#include "rules/standing.h"
#include "util/text.h"

int rules_json(const char *what, struct json_object **list)
{
	struct standing standing;
	int err = standing_read(what, &standing);

	*list = json_object_new_array();
	for (unsigned int i = 0; !err && i < standing.n; i++)
		json_object_array_add(*list, rule_json(&standing.rules[i], &standing.counts[i]));
	if (!err)
		standing_close(&standing);
	return err;
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

static void print_row(const char *what, struct table *table, const struct standing *standing,
		      unsigned int i)
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
	int err = standing_read(what, &standing);
	struct table *table;

	if (err)
		return err;
	if (standing.n) {
		table = table_new(columns, receives(&standing) ? 8 : 7);
		for (unsigned int i = 0; i < standing.n; i++)
			print_row(what, table, &standing, i);
		table_print(table);
	} else if (none) {
		output_line("there are no rules");
	}
	standing_close(&standing);
	return EXIT_OK;
}
