// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf set NAME… KEY=VALUE…: change parameters of what runs. Live flows take
 * the values at their next ACK.
 */
#include <errno.h>

#include "cc/running.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

#define WHAT "set"

/* Open an enabled controller whose parameters can be written. */
static int open_settable(const struct controller *c, struct running *running)
{
	int err = running_open(WHAT, c, running);

	if (err)
		return err;
	if (!running_is_enabled(running))
		err = running_absent(WHAT, running);
	else if (running->params_err == -EMEDIUMTYPE)
		err = FAIL(EXIT_FAILED, .what = WHAT, .on = c->name,
			   .why = "what runs was loaded by another version, with other parameters",
			   .remedy = text("`ccbpf reload %s` loads this version's", c->name));
	else if (running->params_fd < 0)
		err = pin_unusable(WHAT, pin_path(c->name, PIN_PARAMS), running->params_err);
	if (err)
		running_close(running);
	return err;
}

static int set_one(const struct running *running, const struct settings *settings,
		   struct json_object *list)
{
	const struct controller *c = running->controller;
	struct json_object *entry;
	struct values values;
	int err = values_read(running->params_fd, &values);

	if (!err) {
		settings_apply(c, settings, &values);
		err = values_write(running->params_fd, &values);
	}
	if (err)
		return fail_errno(WHAT, pin_path(c->name, PIN_PARAMS), err);
	entry = json_object_new_object();
	add_text(entry, "name", c->name);
	json_object_object_add(entry, "params", values_json(c, &values, false));
	json_object_array_add(list, entry);
	for (unsigned int i = 0; !output.json && i < c->n_params; i++)
		if (settings->given[i])
			output_line("%s: %s is %u %s", c->name, c->params[i].name, values.v[i],
				    c->params[i].unit);
	return EXIT_OK;
}

static int set_all(const struct controller **named, const struct settings *settings, unsigned int n)
{
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();
	struct running running[CCBPF_KINDS];
	unsigned int opened;
	int err = EXIT_OK;

	json_object_object_add(doc, "set", list);
	for (opened = 0; opened < n; opened++) {
		err = open_settable(named[opened], &running[opened]);
		if (err)
			break;
	}
	for (unsigned int i = 0; !err && i < n; i++)
		err = set_one(&running[i], &settings[i], list);
	for (unsigned int i = 0; i < opened; i++)
		running_close(&running[i]);
	return output_answer_of(err, doc, list);
}

static int set(const struct request *request)
{
	const struct controller *named[CCBPF_KINDS];
	struct settings settings[CCBPF_KINDS];
	unsigned int n, first;
	int err = request_controllers(request, 1, named, &n, &first);

	if (!err && first == request->n_args)
		err = FAIL(EXIT_USAGE, .what = WHAT, .on = named[0]->name,
			   .why = "no KEY=VALUE is given",
			   .remedy = "see `ccbpf help set` for the keys");
	for (unsigned int i = 0; !err && i < n; i++)
		err = settings_parse(WHAT, named[i], request->args + first, request->n_args - first,
				     &settings[i]);
	if (!err)
		err = kernel_require_reading(WHAT, NULL);
	if (!err)
		err = running_lock(WHAT, named[0]);
	if (err)
		return err;
	err = set_all(named, settings, n);
	pins_unlock();
	return err;
}

const struct command cmd_set = {
	.name = "set",
	.args = "NAME... KEY=VALUE...",
	.text = "Change parameters of enabled controllers",
	.shows_params = true,
	.run = set,
};
