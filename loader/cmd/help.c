// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf help [COMMAND]: the same text as `ccbpf [COMMAND] --help`. Under -j:
 * the commands as data.
 */
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "util/text.h"

static struct json_object *describe(const struct command *command)
{
	struct json_object *doc = json_object_new_object(), *options = json_object_new_array();

	add_text(doc, "name", command->name);
	add_text(doc, "arguments", command->args);
	add_text(doc, "text", command->text);
	for (const struct argp_option *o = command->options; o && o->name; o++)
		json_object_array_add(options, json_object_new_string(text("--%s", o->name)));
	json_object_object_add(doc, "options", options);
	return doc;
}

static int help(const struct request *request)
{
	const struct command *command = NULL;
	struct json_object *doc;

	if (request->n_args) {
		command = command_find(request->args[0]);
		if (!command)
			return FAIL(EXIT_USAGE, .what = "help", .on = request->args[0],
				    .why = "there is no such command",
				    .remedy = "see `ccbpf help`");
	}
	if (!output.json) {
		command_help(command);
		return EXIT_OK;
	}
	doc = json_object_new_array();
	for (unsigned int i = 0; i < n_commands; i++)
		if (!command || command == commands[i])
			json_object_array_add(doc, describe(commands[i]));
	output_json(doc);
	return EXIT_OK;
}

const struct command cmd_help = {
	.name = "help",
	.args = "[COMMAND]",
	.text = "Explain ccbpf or one of its commands",
	.run = help,
};
