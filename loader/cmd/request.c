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

static int add_controller(const char *what, const char *name, const struct controller **out,
			  unsigned int *n)
{
	const struct controller *c = controller_find(name);

	if (!c)
		return controller_unknown(what, name);
	for (unsigned int i = 0; i < *n; i++)
		if (out[i] == c)
			return FAIL(EXIT_USAGE, .what = what, .on = name,
				    .why = "it is named twice", .remedy = "name it once");
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
