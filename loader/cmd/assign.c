// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf assign [NAME] CONDITION… [-d] [-u] [--dscp le] [--force]: a standing rule, which puts new
 * connections that meet all of its conditions into the background: by the controller NAME in what
 * they send (-u, the default), in what they receive (-d), or in both. `--not` in place of NAME
 * exempts them.
 *
 * ccbpf assign list: the rules in the order in which they win, and what they did.
 * ccbpf assign remove ID…|--all
 *
 * The controller is enabled if it is not; what is received needs none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cc/running.h"
#include "cmd/enable.h"
#include "cmd/rules.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "rules/rule.h"
#include "rules/standing.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/nearest.h"
#include "util/text.h"

#define WHAT "assign"

enum own_option {
	OWN_CGROUP,
	OWN_REMOTE,
	OWN_LOCAL_PORT,
	OWN_REMOTE_PORT,
	OWN_NETNS,
	OWN_FROM,
	OWN_DSCP,
	OWN_NOT,
};

static struct rule_words words_of(const struct request *request)
{
	return (struct rule_words){
		.cgroup = request->own[OWN_CGROUP],
		.remote = request->own[OWN_REMOTE],
		.local_port = request->own[OWN_LOCAL_PORT],
		.remote_port = request->own[OWN_REMOTE_PORT],
		.netns = request->own[OWN_NETNS],
		.from = request->own[OWN_FROM],
		.dscp = request->own[OWN_DSCP],
		.exempt = request->own[OWN_NOT],
		.force = request->force,
		.download = request->download,
		.upload = request->upload,
	};
}

/* What chooses how to send, or NULL. */
static const char *for_sending(const struct request *request)
{
	if (request->n_args)
		return request->args[0];
	if (request->own[OWN_DSCP])
		return "--dscp";
	return request->force ? "--force" : NULL;
}

/* The controller of a new rule; NULL for --not, and for what is received alone. Returns EXIT_OK or
 * EXIT_USAGE. */
static int find_controller(const struct request *request, const struct rule_words *words,
			   const struct controller **c)
{
	const char *why;
	unsigned int n;
	int err = request_controllers(request, 0, c, &n, NULL);

	if (err)
		return err;
	why = rule_words_conflict(words, n);
	if (why && request->own[OWN_NOT])
		return FAIL(EXIT_USAGE, .what = WHAT, .on = "--not", .why = why,
			    .remedy = "leave these out, or --not");
	if (why)
		return rule_fail_only_receives(WHAT, for_sending(request));
	if (!n)
		*c = request->own[OWN_NOT] || rule_words_only_receive(words)
			     ? NULL
			     : controller_background();
	return EXIT_OK;
}

/* Not two rules with the same conditions, of which one would never win. */
static int refuse_twice(const struct standing *standing, const struct ccbpf_rule *rule)
{
	for (unsigned int i = 0; i < standing->n; i++)
		if (rule_same_conditions(&standing->rules[i], rule))
			return FAIL(EXIT_NOTHING, .what = WHAT, .on = rule_conditions_text(rule),
				    .why = text("rule %u has these conditions already",
						standing->rules[i].id),
				    .remedy = text("`ccbpf assign remove %u` first",
						   standing->rules[i].id));
	if (standing->n < CCBPF_RULES_MOST)
		return EXIT_OK;
	return FAIL(EXIT_FAILED, .what = WHAT, .on = rule_conditions_text(rule),
		    .why = text("there are %u rules already", standing->n),
		    .remedy = "remove some, or use larger prefixes");
}

static void report_added(const struct ccbpf_rule *rule)
{
	struct ccbpf_choice_counts none = { 0 };
	struct json_object *doc = json_object_new_object();

	if (!output.json)
		output_line("rule %u: %s for new connections with %s", rule->id,
			    rule->choice.flags & CCBPF_CHOICE_EXEMPT ? "no controller of ours"
								     : rule_choice_text(rule),
			    rule_conditions_text(rule));
	json_object_object_add(doc, "rule", rule_json(rule, &none));
	output_answer(EXIT_OK, doc);
}

static int add_locked(const struct controller *c, struct ccbpf_rule *rule)
{
	struct standing standing;
	bool did = false;
	int err = sweep(WHAT, SWEEP_RESTS, NULL);

	if (!err)
		err = standing_read(WHAT, &standing);
	if (err)
		return err;
	err = refuse_twice(&standing, rule);
	if (!err && c)
		err = enable_needed(c, &did);
	if (!err) {
		standing_add(&standing, rule);
		err = standing_write(WHAT, &standing);
	}
	standing_close(&standing);
	if (err && did)
		enable_give_back(c);
	else if (err)
		sweep(WHAT, SWEEP_UNUSED, NULL);
	else if (did)
		enable_note(c);
	return err;
}

static int add(const struct request *request)
{
	struct rule_words words = words_of(request);
	struct ccbpf_rule rule = { 0 };
	const struct controller *c = NULL;
	const char *absent;
	int err = find_controller(request, &words, &c);

	if (!err)
		err = rule_parse(WHAT, &words, &rule);
	if (!err)
		err = c ? kernel_require(WHAT, NULL) : kernel_require_bpf(WHAT, NULL);
	if (err)
		return err;
	if (c)
		rule_give(&rule, c->name, !c->open);
	err = pins_lock_change(WHAT);
	if (err)
		return err;
	err = add_locked(c, &rule);
	pins_unlock();
	if (err)
		return err;
	absent = rules_absent(&rule);
	if (absent)
		note(text("--from %s", rule.from), absent, NULL);
	report_added(&rule);
	return EXIT_OK;
}

/* The number of the rule that an argument names. Returns EXIT_OK or the exit code. */
static int find_rule(const struct standing *standing, const char *given, unsigned int *found)
{
	char *end;
	unsigned long id = strtoul(given, &end, 10);

	if (*given < '0' || *given > '9' || *end)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = text("remove %s", given),
			    .why = "it is no rule's id",
			    .remedy = "`ccbpf assign list` shows them");
	for (*found = 0; *found < standing->n; (*found)++)
		if (standing->rules[*found].id == id)
			return EXIT_OK;
	return FAIL(EXIT_NOTHING, .what = WHAT, .on = text("remove %s", given),
		    .why = "there is no such rule", .remedy = "`ccbpf assign list` shows them");
}

static int remove_named(struct standing *standing, const struct request *request)
{
	unsigned int before = standing->n, at = 0;
	int err = EXIT_OK;

	if (request->all)
		standing->n = 0;
	for (unsigned int i = 1; !err && i < request->n_args; i++) {
		err = find_rule(standing, request->args[i], &at);
		if (!err)
			standing_drop(standing, at);
	}
	if (!err && before == standing->n)
		return FAIL(EXIT_NOTHING, .what = WHAT, .on = "remove", .why = "there are no rules",
			    .remedy = NULL);
	if (!err)
		err = standing_write(WHAT, standing);
	if (!err && !output.json)
		output_line("%u rule%s removed, %u left", before - standing->n,
			    before - standing->n == 1 ? "" : "s", standing->n);
	return err;
}

static int remove_rules(const struct request *request)
{
	struct json_object *doc;
	struct standing standing;
	int err;

	if (request->all ? request->n_args > 1 : request->n_args < 2)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = "remove",
			    .why = request->all ? "--all takes no ids" : "no id is given",
			    .remedy = "give ids, which `ccbpf assign list` shows, or --all");
	err = kernel_require_bpf(WHAT, NULL);
	if (!err)
		err = pins_lock_change(WHAT);
	if (err)
		return err;
	err = standing_read(WHAT, &standing);
	if (!err) {
		doc = json_object_new_object();
		err = remove_named(&standing, request);
		add_number(doc, "left", standing.n);
		standing_close(&standing);
		output_answer(err, doc);
	}
	if (!err)
		err = sweep(WHAT, SWEEP_UNUSED, NULL);
	pins_unlock();
	return err;
}

static int list(const struct request *request)
{
	struct json_object *doc = json_object_new_object(), *rules = NULL;
	bool exists = false;
	int err = EXIT_OK;

	if (request->n_args > 1)
		err = FAIL(EXIT_USAGE, .what = WHAT, .on = text("list %s", request->args[1]),
			   .why = "nothing is expected behind `list`", .remedy = NULL);
	if (!err)
		err = kernel_require_reading(WHAT, NULL);
	if (!err)
		err = pins_lock_read(WHAT, &exists);
	if (!err) {
		err = output.json ? rules_json(WHAT, &rules) : rules_print(WHAT, true);
		pins_unlock();
	}
	json_object_object_add(doc, "rules", rules);
	return output_answer(err, doc);
}

/* The verb that a misspelt one was meant to be, or NULL. */
static const char *meant(const struct request *request)
{
	static const char *const verbs[] = { "list", "remove" };

	if (!request->n_args || controller_find(request->args[0]))
		return NULL;
	return nearest(request->args[0], verbs, sizeof(verbs) / sizeof(verbs[0]), sizeof(verbs[0]));
}

static int assign(const struct request *request)
{
	const char *verb = request->n_args ? request->args[0] : "", *near = meant(request);

	if (!strcmp(verb, "list"))
		return list(request);
	if (!strcmp(verb, "remove"))
		return remove_rules(request);
	if (near)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = verb,
			    .why = "it is neither a controller nor a verb",
			    .remedy = text("did you mean %s?", near));
	return add(request);
}

static const struct argp_option options[] = {
	{ "cgroup", OPTION_OWN + OWN_CGROUP, "CGROUP", 0,
	  "sockets made in /PATH, unit:NAME, slice:NAME, container:ID or pod:UID, or below", 0 },
	{ "remote", OPTION_OWN + OWN_REMOTE, "PREFIX", 0,
	  "to or from ADDRESS or ADDRESS/LENGTH, IPv4 or IPv6; the longest prefix wins", 0 },
	{ "local-port", OPTION_OWN + OWN_LOCAL_PORT, "N[-M]", 0, "this end's port, 1 to 65535", 0 },
	{ "remote-port", OPTION_OWN + OWN_REMOTE_PORT, "N[-M]", 0, "the other end's port", 0 },
	{ "netns", OPTION_OWN + OWN_NETNS, "NAME|PATH|PID", 0, "in this network namespace", 0 },
	{ "from", OPTION_OWN + OWN_FROM, "NAME", 0,
	  "connections that had this controller before the rule acted, whatever chose it", 0 },
	{ "download", 'd', 0, 0, "what these connections receive is in the background", 0 },
	{ "upload", 'u', 0, 0, "what they send (the default; with --download: both)", 0 },
	{ "dscp", OPTION_OWN + OWN_DSCP, "le", 0, "mark the packets as well: lower effort", 0 },
	{ "not", OPTION_OWN + OWN_NOT, 0, 0, "leave these connections alone", 0 },
	{ "force", OPTION_FORCE, 0, 0, "also where the program has chosen a controller", 0 },
	{ "all", OPTION_ALL, 0, 0, "remove: all rules", 0 },
	{ 0 },
};

const struct command cmd_assign = {
	.name = "assign",
	.args = "[NAME] CONDITION... | list | remove ID...",
	.text = "Give connections a controller by a rule",
	.more = "With --download the receive window of the connections yields, and their controller stays; with --upload as well, both directions "
		"are in the background. "
		"A connection must meet all conditions of a rule; --from asks for the controller that it has when it is established. Of several rules that match one wins: --not without --remote, "
		"then the longest prefix, then --not, then more conditions, then the older one. Rules act on new connections, "
		"connected or accepted, and hold until they are removed or the host is restarted. A path, a container and a pod mean "
		"the cgroup that exists now; a unit and a slice are still meant after their restart. "
		"`list` says so where the cgroup or the network namespace of a rule is gone.",
	.options = options,
	.run = assign,
};
