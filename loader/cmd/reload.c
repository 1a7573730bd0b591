// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf reload NAME… [--set KEY=VALUE…]: this ccbpf's programs in place of
 * those that run, without a moment in which the name cannot be selected. New
 * flows get the new programs, older ones finish under theirs. Parameters keep
 * their values; old and new flows share them, unless their layout changed (then
 * older flows keep what they had).
 *
 * Order: identity_new (params_new) pinned; the link changes over; the new pins
 * renamed over the old. sys/attachment.h tells how a kill between is understood.
 */
#include "cc/program.h"
#include "cc/running.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

#define WHAT "reload"

static int pin_new(const struct running *running, const struct program *program)
{
	const struct attachment *a = &running->attachment;
	int err = attachment_pin_map(WHAT, a, program->obj, CONTROLLER_IDENTITY, true);

	if (!err && running->params_fd < 0)
		err = attachment_pin_map(WHAT, a, program->obj, CONTROLLER_PARAMS, true);
	return err;
}

/*
 * The parameters after the change-over: those of the old map with the settings
 * over them.
 */
static int write_values(const struct running *running, const struct values *values)
{
	int err = running->params_fd < 0 ? 0 : values_write(running->params_fd, values);

	return err ? fail_errno(WHAT, pin_path(running->controller->name, PIN_PARAMS), err)
		   : EXIT_OK;
}

static int replace(struct running *running, const struct settings *settings)
{
	const struct controller *c = running->controller;
	struct values values = values_default(c);
	struct program program = { 0 };
	struct running now;
	int err = 0;

	if (running->params_fd >= 0)
		err = values_read(running->params_fd, &values);
	else
		note(c->name, "its parameters had another layout",
		     "they start from their defaults");
	if (err)
		return fail_errno(WHAT, pin_path(c->name, PIN_PARAMS), err);
	settings_apply(c, settings, &values);
	attachment_settle(&running->attachment);
	err = program_open(WHAT, &program, c, &values, running->params_fd);
	if (!err)
		err = program_load(WHAT, &program);
	if (!err)
		err = pin_new(running, &program);
	if (!err)
		err = program_replace(WHAT, &program, running->attachment.hold_fd);
	if (!err)
		err = write_values(running, &values);
	program_close(&program);
	if (running_open(WHAT, c, &now) == EXIT_OK) {
		attachment_settle(&now.attachment); /* renames the new pins, or removes them
					 where the link refused */
		running_close(&now);
	}
	return err;
}

/* Whether what runs can be reloaded: asked of all before the first is touched.
 */
static int check_reloadable(const struct controller *c)
{
	struct running running;
	int err = running_open(WHAT, c, &running);

	if (!err && !running_is_enabled(&running))
		err = running_absent(WHAT, &running);
	else if (!err && !running.attachment.by_link)
		err = FAIL(
			EXIT_KERNEL, .what = WHAT, .on = c->name,
			.why = "it runs without a struct_ops link, and only a link replaces programs without a gap",
			.remedy = text("`ccbpf disable %s`, then `ccbpf enable %s`", c->name,
				       c->name));
	running_close(&running);
	return err;
}

static int reload_one(const struct controller *c, const struct settings *settings,
		      struct json_object *list)
{
	struct running running;
	int err = running_open(WHAT, c, &running);

	if (!err)
		err = replace(&running, settings);
	running_close(&running);
	if (err || (err = running_open(WHAT, c, &running)))
		return err;
	json_object_array_add(list, running_json(&running));
	if (!output.json)
		output_line("%s reloaded (%s)", c->name, running_handle(&running));
	running_close(&running);
	return EXIT_OK;
}

static int reload(const struct request *request)
{
	const struct controller *named[CCBPF_KINDS];
	struct settings settings[CCBPF_KINDS];
	struct json_object *doc, *list;
	unsigned int n;
	int err = request_controllers(request, 1, named, &n, NULL);

	for (unsigned int i = 0; !err && i < n; i++)
		err = settings_parse(WHAT, named[i], request->sets, request->n_sets, &settings[i]);
	if (!err)
		err = kernel_require(WHAT, NULL);
	if (!err)
		err = running_lock(WHAT, named[0]);
	if (err)
		return err;
	doc = json_object_new_object();
	list = json_object_new_array();
	json_object_object_add(doc, "reloaded", list);
	for (unsigned int i = 0; !err && i < n; i++)
		err = check_reloadable(named[i]);
	for (unsigned int i = 0; !err && i < n; i++)
		err = reload_one(named[i], &settings[i], list);
	pins_unlock();
	return output_answer_of(err, doc, list);
}

static const struct argp_option options[] = { ROW_SET, { 0 } };

const struct command cmd_reload = {
	.name = "reload",
	.args = "NAME... [--set KEY=VALUE]",
	.text = "Load anew without a gap; parameters stay",
	.options = options,
	.shows_params = true,
	.run = reload,
};
