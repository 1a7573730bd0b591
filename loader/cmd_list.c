// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf list: the controllers that this ccbpf carries, and whether each is
 * enabled. Needs no privilege: without it the state is not known ("?", null).
 */
#include "commands.h"
#include "errors.h"
#include "kernel.h"
#include "output.h"
#include "pins.h"
#include "running.h"

enum known {
	UNKNOWN = -1,
	NO,
	YES
};

/*
 * The states by index of `controllers`. Silent: who may not read the pins is
 * told "unknown".
 */
static void read_states(enum known *states)
{
	bool exists = false,
	     readable = !kernel_missing_caps() &&
			pins_lock_read("list", &exists) == EXIT_OK;

	for (unsigned int i = 0; i < n_controllers; i++) {
		struct running running;

		states[i] = readable ? NO : UNKNOWN;
		if (!readable || !exists ||
		    running_open("list", &controllers[i], &running))
			continue;
		states[i] = running.state == RUN_ENABLED;
		running_close(&running);
	}
	pins_unlock();
}

static struct json_object *describe_params(const struct controller *c)
{
	struct json_object *params = json_object_new_array();

	for (unsigned int i = 0; i < c->n_params; i++) {
		const struct param *p = &c->params[i];
		struct json_object *param = json_object_new_object();

		json_object_object_add(param, "name",
				       json_object_new_string(p->name));
		json_object_object_add(param, "unit",
				       json_object_new_string(p->unit));
		json_object_object_add(param, "min",
				       json_object_new_int64(p->min));
		json_object_object_add(param, "max",
				       json_object_new_int64(p->max));
		json_object_object_add(param, "default",
				       json_object_new_int64(p->def));
		json_object_object_add(param, "source",
				       json_object_new_string(p->source));
		json_object_object_add(param, "text",
				       json_object_new_string(p->text));
		json_object_array_add(params, param);
	}
	return params;
}

static struct json_object *describe(const struct controller *c,
				    enum known enabled)
{
	struct json_object *doc = json_object_new_object();

	json_object_object_add(doc, "name", json_object_new_string(c->name));
	json_object_object_add(doc, "kind", json_object_new_int(c->kind));
	json_object_object_add(
		doc, "enabled",
		enabled == UNKNOWN ? NULL : json_object_new_boolean(enabled));
	json_object_object_add(doc, "title", json_object_new_string(c->title));
	json_object_object_add(doc, "access",
			       json_object_new_string(c->open ? "open"
							      : "restricted"));
	json_object_object_add(doc, "source",
			       json_object_new_string(c->source));
	json_object_object_add(doc, "params", describe_params(c));
	return doc;
}

static void print(const enum known *states)
{
	static const struct column columns[] = { { .title = "CONTROLLER" },
						 { .title = "ENABLED" },
						 { .title = "FOR" },
						 { .title = "WHAT IT IS",
						   .elastic = true } };
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
	for_each_controller (c) {
		printf("\n%s: %s\n", c->name, c->source);
		for (unsigned int i = 0; i < c->n_params; i++)
			printf("  %-16s %u %s\n", c->params[i].name,
			       c->params[i].def, c->params[i].unit);
	}
}

static int list(const struct request *request)
{
	enum known states[n_controllers];
	struct json_object *doc;
	int err = request_no_args(request);

	if (err)
		return err;
	read_states(states);
	if (!output.json) {
		print(states);
		return EXIT_OK;
	}
	doc = json_object_new_array();
	for (unsigned int i = 0; i < n_controllers; i++)
		json_object_array_add(doc,
				      describe(&controllers[i], states[i]));
	output_json(doc);
	return EXIT_OK;
}

const struct command cmd_list = {
	.name = "list",
	.args = "",
	.text = "List the controllers and their defaults",
	.run = list,
};
