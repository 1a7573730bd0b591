// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf help [COMMAND]: the same text as `ccbpf [COMMAND] --help`. Under -j: the
 * tables behind it. The manual pages and the completions are made from these
 * (packaging/manual.py, packaging/completions.py).
 */
#include <ctype.h>

#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "util/text.h"

/* An option's key is its short form, if that is a character. */
static struct json_object *describe_option(const struct argp_option *option)
{
	struct json_object *doc = json_object_new_object();
	bool is_short = option->key < OPTION_SET && isgraph(option->key);

	add_text(doc, "name", text("--%s", option->name));
	add_text(doc, "short", is_short ? text("-%c", option->key) : NULL);
	add_text(doc, "argument", option->arg);
	add_text(doc, "text", option->doc);
	return doc;
}

static struct json_object *describe_options(const struct argp_option *options)
{
	struct json_object *list = json_object_new_array();

	for (const struct argp_option *o = options; o && o->name; o++)
		json_object_array_add(list, describe_option(o));
	return list;
}

static struct json_object *describe_command(const struct command *command)
{
	struct json_object *doc = json_object_new_object();

	add_text(doc, "name", command->name);
	add_text(doc, "arguments", command->args);
	add_text(doc, "text", command->text);
	add_text(doc, "more", command->more);
	add_bool(doc, "shows_params", command->shows_params);
	add_bool(doc, "takes_command", command->takes_command);
	json_object_object_add(doc, "options", describe_options(command->options));
	return doc;
}

static struct json_object *describe_exit_codes(void)
{
	struct json_object *list = json_object_new_array(), *doc;

#define X(name, number, meaning)         \
	doc = json_object_new_object();  \
	add_number(doc, "code", number); \
	add_text(doc, "text", meaning);  \
	json_object_array_add(list, doc);
	EXIT_CODES(X)
#undef X
	return list;
}

/* All commands, or only this one. */
static struct json_object *describe(const struct command *only)
{
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();

	for (unsigned int i = 0; i < n_commands; i++)
		if (!only || only == commands[i])
			json_object_array_add(list, describe_command(commands[i]));
	json_object_object_add(doc, "commands", list);
	json_object_object_add(doc, "options", describe_options(global_options));
	json_object_object_add(doc, "exit_codes", describe_exit_codes());
	return doc;
}

static int help(const struct request *request)
{
	const struct command *command = NULL;

	if (request->n_args) {
		command = command_find(request->args[0]);
		if (!command)
			return FAIL(EXIT_USAGE, .what = "help", .on = request->args[0],
				    .why = "there is no such command",
				    .remedy = "see `ccbpf help`");
	}
	if (output.json)
		output_json(describe(command));
	else
		command_help(command);
	return EXIT_OK;
}

const struct command cmd_help = {
	.name = "help",
	.args = "[COMMAND]",
	.text = "Explain ccbpf or one of its commands",
	.run = help,
};
