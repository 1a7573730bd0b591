// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf help [COMMAND [NAME]]: the same text as `ccbpf [COMMAND [NAME]] --help`. Under -j: the
 * tables behind it. The manual pages and the completions are made from these
 * (packaging/manual.py, packaging/completions.py).
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/pins.h"
#include "util/memory.h"
#include "util/text.h"

#define WHAT "help"
#define WIDTH 79 /* as argp has it */
#define USAGE_MOST 256
#define DOC_MOST 2048
#define PARAM_INDENT 19

static const struct argp_option global_options[] = {
	{ "json", 'j', 0, 0, "JSON instead of tables, also for errors", 10 },
	{ "pretty", OPTION_PRETTY, 0, 0, "JSON, indented", 10 },
	{ "verbose", 'v', 0, 0,
	  "more detail: libbpf's messages, the verifier's log of a program that it refuses, the controllers' state of flows; "
	  "given twice: how many instructions the verifier examined, instead of its log",
	  10 },
	{ "help", 'h', 0, 0, "this help", 10 },
	{ 0 },
};

static size_t count(const struct argp_option *options)
{
	size_t n = 0;

	while (options && options[n].name)
		n++;
	return n;
}

struct argp_option *command_options(const struct command *command)
{
	const struct argp_option *own = command ? command->options : NULL;
	size_t n = count(own), n_global = count(global_options);
	struct argp_option *all =
		must_alloc(n + n_global + 1, sizeof(*all)); /* the last is empty */

	if (n)
		memcpy(all, own, n * sizeof(*all));
	memcpy(all + n, global_options, n_global * sizeof(*all));
	return all;
}

/* Words of ASCII, on lines that begin in this column and end before WIDTH. */
static void print_wrapped(unsigned int indent, const char *words)
{
	unsigned int column = WIDTH;

	while (*words) {
		unsigned int length = strcspn(words, " ");

		if (column + 1 + length > WIDTH) {
			printf("\n%*s%.*s", indent, "", length, words);
			column = indent + length;
		} else {
			printf(" %.*s", length, words);
			column += 1 + length;
		}
		words += length;
		words += strspn(words, " ");
	}
}

static void print_params(const struct controller *c)
{
	printf("\nParameters of %s:\n", c->name);
	for (unsigned int i = 0; i < c->n_params; i++) {
		const struct param *p = &c->params[i];

		printf("  %-*s%u to %u %s, by default %u (%s)", PARAM_INDENT - 2, p->name, p->min,
		       p->max, p->unit, p->def, p->source);
		print_wrapped(PARAM_INDENT, p->text);
		putchar('\n');
	}
}

static void print_commands(void)
{
	printf("\nCommands:\n");
	for (unsigned int i = 0; i < n_commands; i++)
		printf("  %-8s %s\n", commands[i]->name, commands[i]->text);
	printf("\n`ccbpf help COMMAND` shows the arguments and the options of a command.\n");
	printf("\nExit codes:\n");
#define X(name, number, text) printf("  %d  %s\n", number, text);
	EXIT_CODES(X)
#undef X
	printf("\nEnvironment: CCBPF_PIN_ROOT, the pin directory (" PINS_DEFAULT_ROOT
	       "); NO_COLOR.\n");
}

void command_help(const struct command *command, const struct controller *only)
{
	struct argp_option *options = command_options(command);
	char *usage = must_alloc(1, USAGE_MOST), *doc = must_alloc(1, DOC_MOST);
	struct argp argp = { .options = options, .args_doc = usage, .doc = doc };

	if (command) {
		snprintf(usage, USAGE_MOST, "%s %s", command->name, command->args);
		snprintf(doc, DOC_MOST, "%s.\v%s", command->text, command->more ?: "");
	} else {
		snprintf(usage, USAGE_MOST, "COMMAND [ARGUMENT...]");
		snprintf(
			doc, DOC_MOST,
			"Enable and watch low-priority TCP congestion controllers, which are BPF programs.");
	}
	argp_help(&argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG, (char *)"ccbpf");
	if (!command)
		print_commands();
	else if (command->shows_params)
		for_each_controller (c)
			if (!only || only == c)
				print_params(c);
	free(options);
	free(usage);
	free(doc);
}

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

/* The controller whose parameters are asked for. Returns EXIT_OK or the exit code. */
static int find_only(const struct request *request, const struct command *command,
		     const struct controller **only)
{
	const char *name = request->n_args > 1 ? request->args[1] : NULL;

	if (!name)
		return EXIT_OK;
	if (!command->shows_params || request->n_args > 2)
		return FAIL(
			EXIT_USAGE, .what = WHAT, .on = request->args[request->n_args - 1],
			.why = command->shows_params
				       ? "it explains the parameters of one controller, or of all"
				       : text("%s takes no parameters", command->name),
			.remedy = "for example: `ccbpf help set le`");
	*only = controller_find(name);
	return *only ? EXIT_OK : controller_unknown(WHAT, name);
}

static int help(const struct request *request)
{
	const struct command *command = NULL;
	const struct controller *only = NULL;
	int err = EXIT_OK;

	if (request->n_args) {
		command = command_find(request->args[0]);
		if (!command)
			return FAIL(EXIT_USAGE, .what = WHAT, .on = request->args[0],
				    .why = "there is no such command",
				    .remedy = "see `ccbpf help`");
		err = find_only(request, command, &only);
	}
	if (err)
		return err;
	if (output.json)
		output_json(describe(command));
	else
		command_help(command, only);
	return EXIT_OK;
}

const struct command cmd_help = {
	.name = "help",
	.args = "[COMMAND [NAME]]",
	.text = "Explain ccbpf or one of its commands",
	.more = "With NAME, only the parameters of that controller are shown.",
	.run = help,
};
