// SPDX-License-Identifier: GPL-2.0-only
/* What is in force, and what the file wants: see state.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cc/running.h"
#include "cc/sysdefault.h"
#include "cc/sysecn.h"
#include "config/state.h"
#include "out/errors.h"
#include "rules/run.h"
#include "rules/sets.h"
#include "rules/units.h"
#include "sys/pins.h"
#include "util/memory.h"
#include "util/text.h"

#define ASK_ECN "1" /* net.ipv4.tcp_ecn: RFC 3168, in and out */

static int read_controller(const char *what, const struct controller *c,
			   struct state_controller *out)
{
	struct running running;
	int err = running_open(what, c, &running);

	if (err)
		return err;
	out->enabled = running_is_enabled(&running);
	if (out->enabled && running.params_fd >= 0)
		out->unreadable = values_read(running.params_fd, &out->values);
	else
		out->unreadable = running.params_err;
	running_close(&running);
	return EXIT_OK;
}

int state_read(const char *what, struct state *out)
{
	int err = standing_read(what, &out->standing);

	if (!err)
		err = applied_read(what, &out->applied);
	for (unsigned int i = 0; !err && i < n_controllers; i++)
		err = read_controller(what, &controllers[i], &out->controllers[i]);
	snprintf(out->cc, sizeof(out->cc), "%s", sysdefault_now());
	snprintf(out->ecn, sizeof(out->ecn), "%s", sysecn_value());
	return err;
}

/* The file's rule with the same conditions, or NULL. */
static const struct config_rule *wanted_as(const struct config *config,
					   const struct ccbpf_rule *rule)
{
	for (unsigned int i = 0; i < config->n_rules; i++)
		if (rule_same_conditions(&config->rules[i].rule, rule))
			return &config->rules[i];
	return NULL;
}

static int refuse_other(const char *what, const struct config *config,
			const struct config_rule *wanted, const struct ccbpf_rule *rule)
{
	fault_place(config->path, wanted->section->line);
	return FAIL(EXIT_FAILED, .what = what, .on = rule_conditions_text(rule),
		    .why = text("rule %u, made by hand, has these conditions and gives %s",
				rule->id, rule_choice_text(rule)),
		    .remedy = text("`ccbpf assign remove %u`, or take the rule out of the file",
				   rule->id));
}

/*
 * Rules that stay get their place in the file; `taken[i]`: the file's rule i is in force, and
 * `goes[i]`: rule i is none of the file's any more.
 */
static int match_rules(const char *what, const struct config *config, struct standing *standing,
		       bool *taken, bool *goes)
{
	for (unsigned int i = 0; i < standing->n; i++) {
		struct ccbpf_rule *rule = &standing->rules[i];
		const struct config_rule *wanted = wanted_as(config, rule);

		if (wanted && rule_same_choice(&wanted->rule, rule)) {
			rule->place = wanted->rule.place;
			taken[wanted - config->rules] = true;
		} else if (wanted && !rule->place && wanted->pod) {
			note(wanted->pod,
			     text("rule %u, made by hand, gives it %s", rule->id,
				  rule_choice_text(rule)),
			     NULL);
			taken[wanted - config->rules] = true;
		} else if (wanted && !rule->place) {
			return refuse_other(what, config, wanted, rule);
		} else {
			goes[i] = rule->place;
		}
	}
	return EXIT_OK;
}

static int want_rules(const char *what, const struct config *config, struct standing *standing)
{
	bool *taken = must_alloc(config->n_rules + 1, sizeof(*taken));
	bool *goes = must_alloc(standing->n + 1, sizeof(*goes));
	unsigned int before = standing->n;
	int err = match_rules(what, config, standing, taken, goes);

	for (unsigned int i = 0; !err && i < config->n_rules; i++)
		if (!taken[i])
			standing_add(standing, &config->rules[i].rule);
	for (unsigned int i = before; !err && i > 0; i--)
		if (goes[i - 1])
			standing_drop(standing, i - 1);
	free(taken);
	free(goes);
	fault_place(config->path, 0);
	if (!err && standing->n > CCBPF_RULES_MOST)
		err = FAIL(EXIT_FAILED, .what = what, .on = "its rules",
			   .why = text("with those made by hand there are %u", standing->n),
			   .remedy = text("at most %u can be", CCBPF_RULES_MOST));
	qsort(standing->rules, standing->n, sizeof(*standing->rules), rule_order);
	return err;
}

/* The first rule that gives it, or NULL. */
static const struct config_rule *giver(const struct config *config, const struct controller *c)
{
	for (unsigned int i = 0; i < config->n_rules; i++)
		if (config->rules[i].controller == c)
			return &config->rules[i];
	return NULL;
}

/* The line of the file that wants it; 0: none, but a pod or nothing. */
static unsigned int wanting_line(const struct config *config, unsigned int i)
{
	const struct config_rule *rule = giver(config, &controllers[i]);

	if (config->controllers[i].line)
		return config->controllers[i].line;
	return rule && rule->section ? rule->section->line : 0;
}

/* "rule 3", "run 1", "`ccbpf systemd`": what gives the controller though the file does not, or NULL. */
static const char *other_user(const struct standing *standing, const struct controller *c)
{
	const char *user = pin_exists(pin_path(units_pin(c->name), NULL)) ? "`ccbpf systemd`"
									  : NULL;
	struct run *runs;
	unsigned int n = runs_read(&runs);

	for (unsigned int i = 0; i < n && !user; i++)
		if (!strcmp(runs[i].about.choice.controller, c->name))
			user = text("run %u", runs[i].id);
	free(runs);
	for (unsigned int i = 0; i < standing->n && !user; i++)
		if (!standing->rules[i].place &&
		    !strcmp(standing->rules[i].choice.controller, c->name))
			user = text("rule %u", standing->rules[i].id);
	return user;
}

static int want_values(const char *what, const struct config *config, unsigned int i,
		       struct values values, struct state_controller *out)
{
	const char *name = controllers[i].name;

	out->line = wanting_line(config, i);
	fault_place(config->path, out->line);
	if (out->enabled && out->unreadable)
		return FAIL(
			EXIT_FAILED, .what = what, .on = name,
			.why = "its parameters cannot be read: what runs was loaded by another version",
			.remedy = text("`ccbpf reload %s` loads this version's", name));
	out->values = values;
	out->enabled = true;
	return EXIT_OK;
}

static int want_controller(const char *what, const struct config *config, unsigned int i,
			   struct state *out)
{
	const struct controller *c = &controllers[i];
	struct state_controller *state = &out->controllers[i];
	uint32_t bit = 1u << c->kind;
	const char *user;

	if (config->controllers[i].line) {
		out->applied.controllers |= bit;
		return want_values(what, config, i, config->controllers[i].values, state);
	}
	if (giver(config, c)) {
		if (state->enabled && !(out->applied.controllers & bit))
			return EXIT_OK;
		out->applied.controllers |= bit;
		return want_values(what, config, i, values_default(c), state);
	}
	if (!(out->applied.controllers & bit))
		return EXIT_OK;
	out->applied.controllers &= ~bit;
	user = state->enabled ? other_user(&out->standing, c) : NULL;
	if (user)
		note(c->name, text("it is not in the file any more, and stays: %s gives it", user),
		     text("`ccbpf disable %s` disables it", c->name));
	state->enabled &= user != NULL;
	return EXIT_OK;
}

/* The default goes back if the file set it and does no longer, or if its controller goes. */
static void want_default(const struct config *config, struct state *out)
{
	const struct controller *wanted = NULL, *now = controller_find(out->cc);
	const char *previous = sysdefault_previous();

	for (unsigned int i = 0; i < n_controllers; i++)
		wanted = config->controllers[i].default_line ? &controllers[i] : wanted;
	if (wanted)
		snprintf(out->cc, sizeof(out->cc), "%s", wanted->name);
	else if (now && previous &&
		 (out->applied.default_kind == now->kind ||
		  !out->controllers[now - controllers].enabled))
		snprintf(out->cc, sizeof(out->cc), "%s", previous);
	out->applied.default_kind = wanted ? wanted->kind : 0;
}

static void want_ecn(const struct config *config, struct state *out)
{
	const char *previous = sysecn_previous();
	bool asked = false, useful = false;

	for (unsigned int i = 0; i < n_controllers; i++) {
		asked |= config->controllers[i].ecn_line;
		useful |= controller_wants_ecn(&controllers[i]) && out->controllers[i].enabled;
	}
	if (asked)
		snprintf(out->ecn, sizeof(out->ecn), "%s", ASK_ECN);
	else if (previous && !strcmp(out->ecn, ASK_ECN) && (out->applied.ecn || !useful))
		snprintf(out->ecn, sizeof(out->ecn), "%s", previous);
	out->applied.ecn = asked;
}

int state_want(const char *what, const struct config *config, const struct state *now,
	       struct state *out)
{
	int err;

	*out = *now;
	out->file = config->path;
	out->standing = standing_copy(&now->standing);
	err = want_rules(what, config, &out->standing);
	for (unsigned int i = 0; !err && i < n_controllers; i++)
		err = want_controller(what, config, i, out);
	if (err)
		return err;
	fault_place(NULL, 0);
	want_default(config, out);
	want_ecn(config, out);
	return EXIT_OK;
}

void state_free(struct state *state)
{
	standing_close(&state->standing);
}

bool state_rules_differ(const struct state *before, const struct state *after)
{
	const struct standing *a = &before->standing, *b = &after->standing;

	return a->n != b->n || (a->detached && a->n) ||
	       (a->n && memcmp(a->rules, b->rules, a->n * sizeof(*a->rules)));
}
