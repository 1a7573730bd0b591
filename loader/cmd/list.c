// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf list: the controllers that this ccbpf carries, and whether each is
 * enabled. Needs no privilege: without it the state is not known ("?", null).
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cc/running.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/table.h"
#include "sys/pins.h"
#include "util/capabilities.h"

#define WHAT "list"

enum known {
	UNKNOWN = -1,
	NO,
	YES
};

/*
 * The states by index of `controllers`, as far as they are known. Silent where
 * the process may not read the pins. Returns EXIT_OK, or the exit code after
 * saying why they could not be read otherwise.
 */
static int read_states(enum known *states)
{
	bool exists = false, readable = !capabilities_missing(CAPABILITIES_CHANGING);
	int err = EXIT_OK;

	/* Asked first, because the lock would complain. */
	if (faccessat(AT_FDCWD, pins_root(), R_OK | X_OK, AT_EACCESS))
		readable = readable && errno == ENOENT;
	if (readable)
		err = pins_lock_read(WHAT, &exists);
	for (unsigned int i = 0; i < n_controllers; i++) {
		struct running running;

		states[i] = readable && !err ? NO : UNKNOWN;
		if (states[i] == UNKNOWN || !exists)
			continue;
		err = running_open(WHAT, &controllers[i], &running);
		states[i] = err ? UNKNOWN : running_is_enabled(&running);
		running_close(&running);
	}
	pins_unlock();
	return err;
}

static struct json_object *describe_params(const struct controller *c)
{
	struct json_object *params = json_object_new_array();

	for (unsigned int i = 0; i < c->n_params; i++) {
		const struct param *p = &c->params[i];
		struct json_object *param = json_object_new_object();

		add_text(param, "name", p->name);
		add_text(param, "unit", p->unit);
		add_number(param, "min", p->min);
		add_number(param, "max", p->max);
		add_number(param, "default", p->def);
		add_text(param, "source", p->source);
		add_text(param, "text", p->text);
		json_object_array_add(params, param);
	}
	return params;
}

static struct json_object *describe(const struct controller *c, enum known enabled)
{
	struct json_object *doc = json_object_new_object();

	add_text(doc, "name", c->name);
	add_number(doc, "kind", c->kind);
	json_object_object_add(doc, "enabled",
			       enabled == UNKNOWN ? NULL : json_object_new_boolean(enabled));
	add_text(doc, "title", c->title);
	add_text(doc, "access", c->open ? "open" : "restricted");
	add_bool(doc, "recommended", c == controller_background());
	add_text(doc, "source", c->source);
	json_object_object_add(doc, "params", describe_params(c));
	return doc;
}

static void print(const enum known *states)
{
	static const struct column columns[] = { { .title = "CONTROLLER" },
						 { .title = "ENABLED" },
						 { .title = "FOR" },
						 { .title = "WHAT IT IS", .elastic = true } };
	struct table *table = table_new(columns, 4);

	for (unsigned int i = 0; i < n_controllers; i++) {
		table_cell(table, "%s", controllers[i].name);
		table_styled(table, states[i] == YES ? STYLE_GOOD : STYLE_NONE,
			     states[i] == UNKNOWN ? "?"
			     : states[i]	  ? "yes"
						  : "no");
		table_cell(table, "%s", controllers[i].open ? "all" : "root");
		table_cell(table, "%s", controllers[i].title);
	}
	table_print(table);
	putchar('\n');
	output_line("Take %s. Where you control the bottleneck's queue (`ccbpf aqm`) and the path",
		    controller_background()->name);
	output_line("keeps ECN, take nf_tcp. The others do what their papers say; ltcp is not for");
	output_line("the background.");
	for_each_controller (c) {
		putchar('\n');
		output_line("%s: %s", c->name, c->source);
		for (unsigned int i = 0; i < c->n_params; i++)
			output_line("  %-16s %u %s", c->params[i].name, c->params[i].def,
				    c->params[i].unit);
	}
}

static int list(const struct request *request)
{
	enum known states[n_controllers];
	struct json_object *doc;
	int err = request_no_args(request);

	if (err)
		return err;
	err = read_states(states);
	if (!output.json) {
		print(states);
		return err;
	}
	doc = json_object_new_array();
	for (unsigned int i = 0; i < n_controllers; i++)
		json_object_array_add(doc, describe(&controllers[i], states[i]));
	output_json(doc);
	return err;
}

const struct command cmd_list = {
	.name = "list",
	.args = "",
	.text = "List the controllers and their defaults",
	.run = list,
};
