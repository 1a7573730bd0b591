// SPDX-License-Identifier: GPL-2.0-only
/* The standing rules, and the commands of `ccbpf run` that are under way. */
#include <stdlib.h>
#include <unistd.h>

#include "cc/flowkinds.h"
#include "cc/totals.h"
#include "metrics/metrics.h"
#include "metrics/totals.h"
#include "out/errors.h"
#include "rules/origins.h"
#include "rules/rule.h"
#include "rules/run.h"
#include "rules/standing.h"
#include "sys/shared.h"
#include "util/memory.h"
#include "util/text.h"

static const char *gives(const struct ccbpf_rule *rule)
{
	return rule->choice.controller; /* "": it exempts, or is for what is received alone */
}

static void connections(const struct standing *standing, struct exposition *out)
{
#define X(count, help)                                                                       \
	exposition_family(out, METRIC_COUNTER, "ccbpf_rule_connections_" #count, help);      \
	for (unsigned int i = 0; i < standing->n; i++)                                       \
		exposition_number(                                                           \
			out,                                                                 \
			LABELS({ "rule", text("%u", standing->rules[i].id) },                \
			       { "controller", gives(&standing->rules[i]) },                 \
			       { "conditions", rule_conditions_text(&standing->rules[i]) }), \
			standing->counts[i].count);
	CCBPF_CHOICE_COUNTS(X)
#undef X
}

/* What the flows of a rule and a kind have done, those that have ended included. */
struct ruled {
	const struct ccbpf_rule *rule;
	const char *controller;
	struct ccbpf_totals totals;
};

static void print_totals(const struct ruled *all, size_t n, struct exposition *out)
{
#define X(field, called, form, help)                                                           \
	exposition_family(out, METRIC_COUNTER, "ccbpf_rule_" called, help);                    \
	for (size_t i = 0; i < n; i++)                                                         \
		exposition_##form(out,                                                         \
				  LABELS({ "rule", text("%u", all[i].rule->id) },              \
					 { "controller", all[i].controller },                  \
					 { "conditions", rule_conditions_text(all[i].rule) }), \
				  all[i].totals.field);
	TOTALS_OF_PART(X)
#undef X
}

/* A pair without flows has no series. */
static int totals(const char *what, const struct standing *standing, struct exposition *out)
{
	struct ruled *all;
	int fd, err = shared_open(what, SHARED_RULES, &fd);
	size_t n = 0;

	if (err || fd < 0)
		return err;
	all = must_alloc(standing->n * n_flow_kinds + 1, sizeof(*all));
	for (unsigned int i = 0; i < standing->n; i++)
		for_each_flow_kind(k)
		{
			struct ruled *ruled = &all[n];

			ruled->rule = &standing->rules[i];
			ruled->controller = k->name;
			n += rule_totals_read(fd, ruled->rule->made_ns, k->kind, &ruled->totals);
		}
	close(fd);
	print_totals(all, n, out);
	free(all);
	return EXIT_OK;
}

static uint64_t rule_of(const void *origins, const struct flow *flow)
{
	struct origin origin;

	return origins_find(origins, flow->key, &flow->record, &origin) && origin.by == ORIGIN_RULE
		       ? origin.id
		       : 0;
}

/* The flows of this instant by the rule that gave them their controller, or holds their receive
 * window. A rule without flows has no series. */
static void flows_of_rules(const struct origins *origins, const struct live *live,
			   struct exposition *out)
{
	struct live_groups groups = live_by(live, rule_of, origins);
	struct live_series *series = must_alloc(groups.n + 1, sizeof(*series));
	size_t n = 0;

	for (size_t i = 0; i < groups.n; i++) {
		const struct live_group *group = &groups.all[i];
		const struct ccbpf_rule *rule = standing_rule(&origins->standing, group->of);

		if (!rule)
			continue; /* it was removed, and its flows go on */
		series[n++] = (struct live_series){
			.labels = { { "rule", text("%u", rule->id) },
				    { "controller", group->kind->name },
				    { "conditions", rule_conditions_text(rule) } },
			.sums = &group->sums,
		};
	}
	live_print(out, "ccbpf_rule_live_", series, n,
		   LIVE_FLOWS | LIVE_CARRIED | LIVE_REDUCED | LIVE_YIELDING | LIVE_DELAYS_FOUND);
	free(series);
	live_groups_free(&groups);
}

int metrics_rules(const char *what, const struct live *live, const struct origins *origins,
		  struct exposition *out)
{
	struct standing standing;
	int err = standing_read(what, &standing);

	if (err)
		return err;
	connections(&standing, out);
	err = totals(what, &standing, out);
	if (!err && live->known && origins->known)
		flows_of_rules(origins, live, out);
	standing_close(&standing);
	return err;
}

/* All that a run counts: X(field, NAME, is ns, help) */
#define COUNTS(X)                                                                                  \
	X(opened, "connections", number, "connections that got the controller")                    \
	X(bytes, "sent_bytes", number,                                                             \
	  "payload sent by connections that have ended, or are ending")                            \
	X(sending_ns, "sending_seconds", seconds,                                                  \
	  "time in which its connections sent, all together")                                      \
	X(held_ns, "yielded_seconds", seconds,                                                     \
	  "time among it in which the controller held the window back")                            \
	X(choice.receivers, "receiving_connections", number,                                       \
	  "connections whose receive window was in the background")                                \
	X(received, "received_bytes", number, "payload received by them")                          \
	X(receiving_ns, "receiving_seconds", seconds, "time in which they received, all together") \
	X(receiving_held_ns, "receiving_yielded_seconds", seconds,                                 \
	  "time among it in which their receive window was held back")

int metrics_runs(const char *what, struct exposition *out)
{
	struct run *runs;
	unsigned int n = runs_read(&runs);

	(void)what;
#define X(field, name, form, help)                                                         \
	exposition_family(out, METRIC_COUNTER, "ccbpf_run_" name, help);                   \
	for (unsigned int i = 0; i < n; i++)                                               \
		if (runs[i].known)                                                         \
			exposition_##form(                                                 \
				out,                                                       \
				LABELS({ "run", text("%u", runs[i].id) },                  \
				       { "command", runs[i].about.command },               \
				       { "controller", runs[i].about.choice.controller }), \
				runs[i].counts.field);
	COUNTS(X)
#undef X
	free(runs);
	return EXIT_OK;
}
