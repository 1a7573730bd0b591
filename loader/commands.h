/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of commands: one row here, one file cmd/<name>.c with its `struct
 * command` and all it does. The table drives dispatch, help and completion.
 *
 *   X(name)
 */
#ifndef CCBPF_COMMANDS_H
#define CCBPF_COMMANDS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "cc/controllers.h"
#include "cc/flowkinds.h"
#include "cc/params.h"

#define CCBPF_COMMANDS(X) \
	X(list)           \
	X(run)            \
	X(assign)         \
	X(apply)          \
	X(systemd)        \
	X(enable)         \
	X(disable)        \
	X(reload)         \
	X(set)            \
	X(status)         \
	X(flows)          \
	X(top)            \
	X(trace)          \
	X(plot)           \
	X(metrics)        \
	X(renice)         \
	X(aqm)            \
	X(gateway)        \
	X(check)          \
	X(clean)          \
	X(version)        \
	X(help)

#define MOST_OWN 16 /* options that are one command's alone */

/* What the command line asks for, as parsed. */
struct request {
	const struct command *command;
	char **args; /* what is no option */
	unsigned int n_args;
	char **sets; /* of --set, or of renice's --pid */
	unsigned int n_sets;
	bool all; /* --all */
	bool make_default; /* --default */
	bool ecn; /* --ecn */
	bool dry_run; /* -n, --dry-run */
	uint64_t watch_ns; /* --watch, 0: not given */
	uint64_t for_ns; /* --for, 0: not given */
	bool quiet; /* -q */
	bool batch; /* -b */
	bool force; /* --force */
	bool download; /* -d, --download */
	bool upload; /* -u, --upload */
	char **rest; /* the command to run, with its arguments and a NULL; NULL: none */
	bool quoted; /* `--` is before it */
	/*
	 * Of the option with key OPTION_OWN + i: its argument, "" if it takes none, NULL if the
	 * option was not given.
	 */
	const char *own[MOST_OWN];
};

struct command {
	const char *name;
	const char *args; /* for the usage line */
	const char *text; /* one line */
	const char *more; /* for its own help, or NULL */
	const struct argp_option *options; /* its own, or NULL */
	bool shows_params; /* its help ends with the parameters of the controllers */
	/*
	 * Behind `--`, or from the first word on that is neither an option nor a controller's
	 * name, everything belongs to a command to run: request.rest. What ccbpf itself refuses
	 * is then EXIT_OURS, as with env(1).
	 */
	bool takes_command;
	int (*run)(const struct request *request); /* returns an exit code */
};

#define EXIT_OURS 125

#define X(name) extern const struct command cmd_##name;
CCBPF_COMMANDS(X)
#undef X

extern const struct command *const commands[];
extern const unsigned int n_commands;

/* Keys of options that have no short form. Rows for a command's `options`. */
enum option_key {
	OPTION_SET = 256,
	OPTION_DEFAULT,
	OPTION_ECN,
	OPTION_ALL,
	OPTION_WATCH,
	OPTION_FOR,
	OPTION_PRETTY,
	OPTION_FORCE,
	OPTION_OWN, /* and up to MOST_OWN - 1 more */
};
#define ROW_SET { "set", OPTION_SET, "KEY=VALUE", 0, "set a parameter (can be repeated)", 0 }
#define ROW_DEFAULT \
	{ "default", OPTION_DEFAULT, 0, 0, "make it the default of this network namespace", 0 }
#define ROW_ECN { "ecn", OPTION_ECN, 0, 0, "connections of this network namespace ask for ECN", 0 }

/* The command of that name, or NULL. */
const struct command *command_find(const char *name);

/* The options of a command, or with NULL of ccbpf itself, and the global ones; to be freed. */
struct argp_option *command_options(const struct command *command);

/*
 * Print a command's help, or ccbpf's own with NULL, on stdout. `only`: of a command that takes
 * parameters, show those of this controller; NULL: those of all.
 */
void command_help(const struct command *command, const struct controller *only);

/*
 * Look up the controllers that the arguments name. `least` must be there at the
 * least; `rest` NULL: all arguments are names, else it gets the index of the
 * first argument with a `=` in it. Returns EXIT_OK, or EXIT_USAGE after saying
 * what is wrong (none given, unknown, twice).
 */
int request_controllers(const struct request *request, unsigned int least,
			const struct controller **out, unsigned int *n, unsigned int *rest);

/* The same for what has records in `flows`: the controllers, and the downloads; any number. */
int request_flow_kinds(const struct request *request, const struct flow_kind **out,
		       unsigned int *n);

/*
 * Fail because an argument is not expected, if there are any. Returns EXIT_OK
 * or EXIT_USAGE.
 */
int request_no_args(const struct request *request);

#endif
