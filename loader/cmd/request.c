// SPDX-License-Identifier: GPL-2.0-only
/* What the commands have in common in reading their arguments: see commands.h.
 */
#include <string.h>

#include "commands.h"
#include "out/errors.h"
#include "util/text.h"

int request_no_args(const struct request *request)
{
	if (!request->n_args)
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = request->command->name, .on = request->args[0],
		    .why = "the command takes no argument",
		    .remedy = text("see `ccbpf help %s`", request->command->name));
}

static int named_twice(const char *what, const char *name)
{
	return FAIL(EXIT_USAGE, .what = what, .on = name, .why = "it is named twice",
		    .remedy = "name it once");
}

static int add_controller(const char *what, const char *name, const struct controller **out,
			  unsigned int *n)
{
	const struct controller *c = controller_find(name);

	if (!c)
		return controller_unknown(what, name);
	for (unsigned int i = 0; i < *n; i++)
		if (out[i] == c)
			return named_twice(what, name);
	out[(*n)++] = c;
	return EXIT_OK;
}

int request_controllers(const struct request *request, unsigned int least,
			const struct controller **out, unsigned int *n, unsigned int *rest)
{
	const char *what = request->command->name;
	unsigned int i;

	*n = 0;
	for (i = 0; i < request->n_args && !(rest && strchr(request->args[i], '=')); i++) {
		int err = add_controller(what, request->args[i], out, n);

		if (err)
			return err;
	}
	if (rest)
		*rest = i;
	if (*n < least)
		return FAIL(EXIT_USAGE, .what = what, .why = "no controller is named",
			    .remedy = "`ccbpf list` shows them all");
	return EXIT_OK;
}

int request_flow_kinds(const struct request *request, const struct flow_kind **out, unsigned int *n)
{
	const char *what = request->command->name;

	*n = 0;
	for (unsigned int i = 0; i < request->n_args; i++) {
		const struct flow_kind *kind = flow_kind_find(request->args[i]);

		if (!kind)
			return controller_unknown(what, request->args[i]);
		for (unsigned int before = 0; before < *n; before++)
			if (out[before] == kind)
				return named_twice(what, kind->name);
		out[(*n)++] = kind;
	}
	return EXIT_OK;
}
