// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf apply [FILE] [-n] [--pods LIST]: make what runs what the file says (config/config.h,
 * config/state.h), and what the annotations of pods say (config/pods.h).
 *
 * All of the file is checked before anything is changed. Then, in this order:
 *
 *   what the file has is noted (config/applied.h)       so that a later apply knows it
 *   controllers that come: all, or none
 *   parameters, default, ECN
 *   the rules, all at once
 *   controllers that go
 *   what the file has is noted once more                without what has gone
 *
 * Until the rules are written, a step that fails takes back the ones before. A kill at any
 * instant leaves each controller and the set of rules whole, old or new; the next apply does what
 * is left.
 */
#include <string.h>

#include "cc/sysdefault.h"
#include "cc/sysecn.h"
#include "cmd/disable.h"
#include "cmd/enable.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "config/pods.h"
#include "config/state.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

#define WHAT "apply"

enum own_option {
	OWN_PODS
};

static int enable_new(const struct state *before, const struct state *after)
{
	struct enable_wanted wanted[CCBPF_KINDS];
	unsigned int n = 0;

	for (unsigned int i = 0; i < n_controllers; i++)
		if (after->controllers[i].enabled && !before->controllers[i].enabled)
			wanted[n++] = (struct enable_wanted){ &controllers[i],
							      after->controllers[i].values,
							      after->controllers[i].line };
	return n ? enable_with(after->file, wanted, n) : EXIT_OK;
}

static int disable(const struct controller *c)
{
	const char *restored, *ecn;
	struct running running;
	int err = running_open(WHAT, c, &running);

	if (!err && running_is_enabled(&running))
		err = disable_running(WHAT, &running, &restored, &ecn);
	running_close(&running);
	return err;
}

/* Those that are enabled in `from` and not in `to`. Returns EXIT_OK or the first exit code. */
static int disable_old(const struct state *from, const struct state *to)
{
	int first = EXIT_OK;

	for (unsigned int i = 0; i < n_controllers; i++) {
		int err = EXIT_OK;

		if (from->controllers[i].enabled && !to->controllers[i].enabled)
			err = disable(&controllers[i]);
		first = first ?: err;
	}
	return first;
}

static int write_values(const struct controller *c, const struct values *values)
{
	struct running running;
	int err = running_open(WHAT, c, &running);

	if (err)
		return err;
	err = running.params_fd < 0 ? running.params_err : values_write(running.params_fd, values);
	running_close(&running);
	return err ? fail_errno(WHAT, text("the parameters of %s", c->name), err) : EXIT_OK;
}

/* Of controllers that are enabled in both. */
static int change_values(const struct state *from, const struct state *to)
{
	int err = EXIT_OK;

	for (unsigned int i = 0; !err && i < n_controllers; i++) {
		const struct state_controller *a = &from->controllers[i], *b = &to->controllers[i];

		if (a->enabled && b->enabled && memcmp(&a->values, &b->values, sizeof(a->values)))
			err = write_values(&controllers[i], &b->values);
	}
	return err;
}

static int change_default(const struct state *from, const struct state *to)
{
	const struct controller *now = controller_find(from->cc), *next = controller_find(to->cc);

	if (!strcmp(from->cc, to->cc))
		return EXIT_OK;
	if (next)
		return sysdefault_set(WHAT, next);
	if (now)
		sysdefault_release(now); /* says itself why it cannot */
	return EXIT_OK;
}

static int change_ecn(const struct state *from, const struct state *to)
{
	if (!strcmp(from->ecn, to->ecn))
		return EXIT_OK;
	if (to->applied.ecn)
		return sysecn_set(WHAT);
	sysecn_give_back(); /* says itself why it cannot */
	return EXIT_OK;
}

/* All that can be taken back: the state is `to`, or `from` if it fails. */
static int change(const struct state *from, struct state *to)
{
	int err = enable_new(from, to);

	if (err)
		return err;
	err = change_values(from, to);
	if (!err)
		err = change_default(from, to);
	if (!err)
		err = change_ecn(from, to);
	if (!err && state_rules_differ(from, to))
		err = standing_write(WHAT, &to->standing);
	if (!err)
		return EXIT_OK;
	change_ecn(to, from);
	change_default(to, from);
	change_values(to, from);
	disable_old(to, from);
	note(WHAT, "nothing of the file is in force that was not before",
	     "remove the cause, then apply it again");
	return err;
}

/* What is noted while some is old and some is new: both. */
static struct applied applied_both(const struct state *before, const struct state *after)
{
	struct applied both = after->applied;

	both.controllers |= before->applied.controllers;
	both.default_kind = both.default_kind ?: before->applied.default_kind;
	both.ecn |= before->applied.ecn;
	return both;
}

static int execute(const struct state *before, struct state *after)
{
	const struct applied both = applied_both(before, after);
	int err = applied_write(WHAT, &both), failed;

	if (err)
		return err;
	err = change(before, after);
	if (err)
		applied_write(WHAT, &before->applied);
	if (!err)
		err = disable_old(before, after);
	if (!err)
		err = applied_write(WHAT, &after->applied);
	failed = sweep(WHAT, SWEEP_UNUSED, NULL);
	return err ?: failed;
}

static void report(const char *path, bool dry_run, struct json_object *changes)
{
	struct json_object *doc = json_object_new_object();
	size_t n = json_object_array_length(changes);

	if (!output.json && !n)
		output_line("%s: nothing to change", path);
	else if (!output.json)
		output_line("%s: %zu change%s%s", path, n, n == 1 ? "" : "s",
			    dry_run ? " to make" : " made");
	add_text(doc, "file", path);
	add_bool(doc, "dry_run", dry_run);
	json_object_object_add(doc, "changes", changes);
	output_answer(EXIT_OK, doc);
}

static int apply_locked(const struct config *config, bool dry_run)
{
	struct json_object *changes = json_object_new_array();
	struct state before = { .standing = STANDING_NONE };
	struct state after = before;
	int err = dry_run ? EXIT_OK : sweep(WHAT, SWEEP_RESTS, NULL);

	if (!err)
		err = state_read(WHAT, &before);
	if (!err)
		err = state_want(WHAT, config, &before, &after);
	if (!err && !dry_run)
		err = execute(&before, &after);
	if (!err) {
		state_differences(&before, &after, changes);
		report(config->path, dry_run, changes);
	} else {
		json_object_put(changes);
	}
	state_free(&before);
	state_free(&after);
	return err;
}

/* Does the file want a controller, and not only rules with `not` or `download`? */
static bool wants_controllers(const struct config *config)
{
	bool wants = false;

	for (unsigned int i = 0; i < n_controllers; i++)
		wants |= config->controllers[i].line;
	for (unsigned int i = 0; i < config->n_rules; i++)
		wants |= config->rules[i].controller != NULL;
	return wants;
}

static int require(const struct config *config, bool dry_run)
{
	if (dry_run)
		return kernel_require_reading(WHAT, NULL);
	return wants_controllers(config) ? kernel_require(WHAT, NULL)
					 : kernel_require_bpf(WHAT, NULL);
}

static int apply_config(struct config *config, const char *pods, bool dry_run)
{
	bool exists;
	int err = config_find(WHAT, config);

	if (!err && pods)
		err = pods_add(WHAT, pods, config);
	fault_place(NULL, 0);
	if (!err)
		err = require(config, dry_run);
	if (!err)
		err = dry_run ? pins_lock_read(WHAT, &exists) : pins_lock_change(WHAT);
	if (err)
		return err;
	err = apply_locked(config, dry_run);
	fault_place(NULL, 0);
	pins_unlock();
	return err;
}

static int apply(const struct request *request)
{
	struct config config;
	int err = EXIT_OK;

	if (request->n_args > 1)
		err = FAIL(EXIT_USAGE, .what = WHAT, .on = request->args[1],
			   .why = "only one file can be named", .remedy = "see `ccbpf help apply`");
	if (err)
		return err;
	err = config_read(WHAT, request->n_args ? request->args[0] : CONFIG_PATH, &config);
	if (!err)
		err = apply_config(&config, request->own[OWN_PODS], request->dry_run);
	fault_place(NULL, 0);
	config_free(&config);
	return err;
}

static const struct argp_option options[] = {
	{ "pods", OPTION_OWN + OWN_PODS, "LIST", 0,
	  "also rules for the pods in this list of Kubernetes, by their annotation " PODS_ANNOTATION,
	  0 },
	{ "dry-run", 'n', 0, 0, "only show what would change", 0 },
	{ 0 },
};

const struct command cmd_apply = {
	.name = "apply",
	.args = "[FILE]",
	.text = "Apply the controllers and rules of a file",
	.more = "FILE is by default " CONFIG_PATH
		". It lists in TOML the controllers that are enabled and the rules that are in force; "
		"the comments of the installed " CONFIG_PATH
		" explain all keys. All of the file is applied, or nothing. Entries that were deleted from "
		"the file are removed at the next apply; what was set up by hand stays. One file is in force at a time. "
		"LIST is what Kubernetes' API server answers to GET /api/v1/pods, as a file or, with `-`, on standard input: "
		"each pod of this node with the annotation " PODS_ANNOTATION
		": NAME gets the controller NAME, as by a rule of the file. Rules of pods that have ended, or are not in the list, are removed.",
	.options = options,
	.run = apply,
};
