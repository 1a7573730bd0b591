// SPDX-License-Identifier: GPL-2.0-only
/* The difference between two states, for people and as JSON: see state.h. */
#include <stdio.h>
#include <string.h>

#include "config/state.h"
#include "out/json.h"
#include "out/output.h"
#include "util/text.h"

/* One difference; NULL before: it comes, NULL after: it goes. */
static void add(struct json_object *changes, const char *kind, const char *name, const char *before,
		const char *after)
{
	struct json_object *change = json_object_new_object();

	add_text(change, "kind", kind);
	add_text(change, "name", name);
	add_text(change, "before", before);
	add_text(change, "after", after);
	json_object_array_add(changes, change);
	if (output.json)
		return;
	if (before && after)
		output_line("~ %s %s: %s -> %s", kind, name, before, after);
	else
		output_line("%s %s %s%s%s", before ? "-" : "+", kind, name,
			    *(before ?: after) ? ": " : "", before ?: after);
}

static void compare_controller(const struct controller *c, const struct state_controller *before,
			       const struct state_controller *after, struct json_object *changes)
{
	if (before->enabled != after->enabled) {
		const char *values = text("%s", values_text(c, before->enabled ? &before->values
									       : &after->values));

		add(changes, "controller", c->name, before->enabled ? values : NULL,
		    after->enabled ? values : NULL);
		return;
	}
	for (unsigned int i = 0; after->enabled && i < c->n_params; i++)
		if (before->values.v[i] != after->values.v[i])
			add(changes, "parameter", text("%s.%s", c->name, c->params[i].name),
			    text("%u", before->values.v[i]), text("%u", after->values.v[i]));
}

static const char *words(const struct ccbpf_rule *rule)
{
	return text("%s %s", rule_choice_text(rule), rule_conditions_text(rule));
}

/* Of two rules that stay, another one wins now. */
static bool order_differs(const struct standing *before, const struct standing *after)
{
	unsigned int j = 0;

	for (unsigned int i = 0; i < before->n; i++) {
		if (!standing_rule(after, before->rules[i].id))
			continue;
		while (!standing_rule(before, after->rules[j].id))
			j++;
		if (before->rules[i].id != after->rules[j++].id)
			return true;
	}
	return false;
}

static void compare_rules(const struct standing *before, const struct standing *after,
			  struct json_object *changes)
{
	for (unsigned int i = 0; i < before->n; i++)
		if (!standing_rule(after, before->rules[i].id))
			add(changes, "rule", text("%u", before->rules[i].id),
			    words(&before->rules[i]), NULL);
	for (unsigned int i = 0; i < after->n; i++) {
		const struct ccbpf_rule *rule = &after->rules[i],
					*old = standing_rule(before, rule->id);

		if (!old)
			add(changes, "rule", text("%u", rule->id), NULL, words(rule));
		else if (!old->place && rule->place)
			add(changes, "rule", text("%u", rule->id), "made by hand",
			    text("of the %s", rule_origin(rule)));
	}
	if (order_differs(before, after))
		add(changes, "rules", "order", "as it was", "that of the file");
	if (before->detached && after->n)
		add(changes, "rules", "program", "detached by somebody", "attached");
}

void state_differences(const struct state *before, const struct state *after,
		       struct json_object *changes)
{
	for (unsigned int i = 0; i < n_controllers; i++)
		compare_controller(&controllers[i], &before->controllers[i], &after->controllers[i],
				   changes);
	if (strcmp(before->cc, after->cc))
		add(changes, "default", "net.ipv4.tcp_congestion_control", before->cc, after->cc);
	if (strcmp(before->ecn, after->ecn))
		add(changes, "ecn", "net.ipv4.tcp_ecn", before->ecn, after->ecn);
	compare_rules(&before->standing, &after->standing, changes);
}
