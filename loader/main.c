// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf: congestion controllers in BPF, from the command line.
 *
 *   ccbpf [OPTION…] COMMAND [ARGUMENT…]
 *
 * It parses (the global options are understood anywhere), finds the command in
 * the table, runs it, and sees to it that the output was written. It keeps no
 * state: what runs is what is pinned (sys/pins.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cc/program.h"
#include "commands.h"
#include "out/errors.h"
#include "out/output.h"
#include "sys/child.h"
#include "util/memory.h"
#include "util/nearest.h"
#include "util/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LONGEST_S 31536000.0 /* a year, of --watch and --for: far from overflow in ns */
#define SHORTEST_S 0.01 /* faster than anybody reads */

const struct command *const commands[] = {
#define X(name) &cmd_##name,
	CCBPF_COMMANDS(X)
#undef X
};
const unsigned int n_commands = COUNT(commands);

const struct command *command_find(const char *name)
{
	for (unsigned int i = 0; i < n_commands; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static int bad_usage(const struct request *request, const char *why)
{
	const char *name = request->command ? request->command->name : NULL;

	return FAIL(EXIT_USAGE, .what = name ?: "understand the command line", .why = why,
		    .remedy = text("see `ccbpf %s--help`", name ? text("%s ", name) : ""));
}

static int parse_seconds(const struct request *request, const char *string, uint64_t *ns)
{
	char *end;
	double seconds = strtod(string, &end);

	if (end == string || *end || !isfinite(seconds) || seconds < SHORTEST_S ||
	    seconds > LONGEST_S)
		return bad_usage(request, text("`%s` is not a number of seconds from %.2f to %.0f",
					       string, SHORTEST_S, LONGEST_S));
	*ns = seconds * 1e9;
	return EXIT_OK;
}

/* What the parser gathers: the request and how it ended. */
struct parse {
	struct request request;
	bool help;
	int exit;
};

/* An option of every command. */
static int parse_global(int key, struct parse *parse)
{
	switch (key) {
	case 'j':
		output.json = true;
		return 0;
	case OPTION_PRETTY:
		output.json = output.pretty = true;
		return 0;
	case 'v':
		output.verbose++;
		return 0;
	case 'h':
		parse->help = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void bad_option(struct parse *parse, const struct argp_state *state)
{
	const char *option = state->argv[state->next - (state->next > 1)];

	if (!parse->exit)
		parse->exit =
			bad_usage(&parse->request,
				  text("option `%s` is unknown, or lacks its argument", option));
}

static bool takes_command(const struct request *request)
{
	return request->command && request->command->takes_command;
}

/* An argument, or, see takes_command, the beginning of the command to run. */
static void parse_argument(struct request *request, char *arg, struct argp_state *state)
{
	if (!takes_command(request) ||
	    (!state->quoted && !request->n_args && controller_find(arg))) {
		request->args[request->n_args++] = arg;
		return;
	}
	request->rest = &state->argv[state->next - 1];
	request->quoted = state->quoted;
	state->next = state->argc;
}

/* An option without an argument that several commands have. */
static bool *switch_of(int key, struct request *request)
{
#define SWITCH(key, member) { key, offsetof(struct request, member) }
	static const struct {
		int key;
		size_t at;
	} switches[] = {
		SWITCH(OPTION_DEFAULT, make_default),
		SWITCH(OPTION_ECN, ecn),
		SWITCH(OPTION_ALL, all),
		SWITCH(OPTION_FORCE, force),
		SWITCH('b', batch),
		SWITCH('d', download),
		SWITCH('n', dry_run),
		SWITCH('q', quiet),
		SWITCH('u', upload),
	};
#undef SWITCH

	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		if (switches[i].key == key)
			return (bool *)((char *)request + switches[i].at);
	return NULL;
}

static int parse_option(int key, char *arg, struct argp_state *state)
{
	struct parse *parse = state->input;
	struct request *request = &parse->request;

	if (key >= OPTION_OWN && key < OPTION_OWN + MOST_OWN) {
		request->own[key - OPTION_OWN] = arg ?: "";
		return 0;
	}
	if (switch_of(key, request)) {
		*switch_of(key, request) = true;
		return 0;
	}
	switch (key) {
	case OPTION_SET:
		request->sets[request->n_sets++] = arg;
		return 0;
	case OPTION_WATCH:
		if (!parse->exit)
			parse->exit = parse_seconds(request, arg, &request->watch_ns);
		return 0;
	case OPTION_FOR:
		if (!parse->exit)
			parse->exit = parse_seconds(request, arg, &request->for_ns);
		return 0;
	case ARGP_KEY_ARG:
		parse_argument(request, arg, state);
		return 0;
	case ARGP_KEY_ERROR:
		bad_option(parse, state);
		return 0;
	default:
		return parse_global(key, parse);
	}
}

/*
 * Index of the first argument that is no option: the command. Options before it
 * take no argument.
 */
static int command_index(int argc, char **argv)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && argv[i][1])
		i++;
	return i;
}

/* Called by this name, the command line is that of `ccbpf run`. */
static bool is_netnice(const char *called)
{
	const char *slash = strrchr(called ?: "", '/');

	return !strcmp(slash ? slash + 1 : called ?: "", "netnice");
}

static int unknown_command(const char *name)
{
	const char *names[COUNT(commands)], *near;

	for (unsigned int i = 0; i < n_commands; i++)
		names[i] = commands[i]->name;
	near = nearest(name, names, n_commands, sizeof(names[0]));
	return FAIL(EXIT_USAGE, .what = "run", .on = name, .why = "there is no such command",
		    .remedy = near ? text("did you mean %s?", near) : "see `ccbpf --help`");
}

/* Errors speak JSON wherever -j stands, also among others (-vj) and behind what is
 * wrong. No short option takes an argument. What belongs to a command to run is not ours. */
static void find_json(int argc, char **argv, int at, const struct command *command)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];

		if (command && command->takes_command && i > at && *word != '-')
			return;
		if (!strcmp(word, "--"))
			return;
		if (!strcmp(word, "--json") || !strcmp(word, "--pretty") ||
		    (word[0] == '-' && word[1] != '-' && strchr(word, 'j')))
			output.json = true;
	}
}

static int run(int argc, char **argv, struct parse *parse)
{
	bool netnice = is_netnice(argv[0]);
	int at = netnice ? 0 : command_index(argc, argv), err;
	struct request *request = &parse->request;
	struct argp_option *options;
	struct argp argp = { .parser = parse_option };

	if (at < argc)
		request->command = netnice ? &cmd_run : command_find(argv[at]);
	find_json(argc, argv, at, request->command);
	if (at < argc && !netnice) {
		if (!request->command)
			return unknown_command(argv[at]);
		memmove(&argv[at], &argv[at + 1],
			(argc - at) * sizeof(*argv)); /* the options around it
							 remain */
		argc--;
	}
	fault_exit(takes_command(request) ? EXIT_OURS : 0);
	argp.options = options = command_options(request->command);
	err = argp_parse(&argp, argc, argv,
			 ARGP_NO_HELP | ARGP_NO_ERRS | ARGP_NO_EXIT |
				 (takes_command(request) ? ARGP_IN_ORDER : 0),
			 NULL, parse);
	free(options);
	if (!parse->exit && err)
		parse->exit = bad_usage(request, strerror(err));
	if (parse->exit)
		return takes_command(request) ? EXIT_OURS : parse->exit;
	if (parse->help) {
		command_help(request->command,
			     request->n_args ? controller_find(request->args[0]) : NULL);
		return EXIT_OK;
	}
	if (!request->command)
		return bad_usage(request, "no command is given");
	program_logging();
	return request->command->run(request);
}

/*
 * No file of ours may become stdin, stdout or stderr where these are closed;
 * writing there fails then.
 */
static void guard_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* a command finds them closed */
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct parse parse = { 0 };
	int code, written;

	memory_exhausted = fail_out_of_memory;
	guard_standard_files();
	child_remember_signals();
	signal(SIGPIPE, SIG_DFL); /* a reader that has seen enough ends us
				     quietly */
	parse.request.args = must_alloc(argc + 1, sizeof(char *));
	parse.request.sets = must_alloc(argc + 1, sizeof(char *));
	code = run(argc, argv, &parse);
	written = output_finish();
	if (!code)
		code = written;
	free(parse.request.args);
	free(parse.request.sets);
	text_release(NULL);
	return code;
}
