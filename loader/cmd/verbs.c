// SPDX-License-Identifier: GPL-2.0-only
/* Commands that have verbs for a device: see verbs.h. */
#include <string.h>

#include "cmd/verbs.h"
#include "out/errors.h"
#include "out/ticker.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

static int bad_usage(const struct verbs *verbs, const char *on, const char *why)
{
	return FAIL(EXIT_USAGE, .what = verbs->command, .on = on, .why = why,
		    .remedy = text("see `ccbpf %s --help`", verbs->command));
}

static int check(const struct request *request, const struct verbs *verbs, const struct verb *verb,
		 bool options)
{
	unsigned int devices = request->n_args - 1;

	if (request->all && strcmp(verb->name, "detach"))
		return bad_usage(verbs, verb->name, "only detach takes --all");
	if (request->all && devices)
		return bad_usage(verbs, request->args[1], "--all takes no device");
	if (devices > 1)
		return bad_usage(verbs, request->args[2], "one device at a time");
	if (verb->takes_device && !devices && !request->all)
		return bad_usage(verbs, verb->name, "no device is named");
	if (options && !verb->takes_options)
		return bad_usage(verbs, verb->name, verbs->options);
	if (request->watch_ns && strcmp(verb->name, "show"))
		return bad_usage(verbs, verb->name, "only show takes --watch");
	return EXIT_OK;
}

int verbs_run(const struct request *request, const struct verbs *verbs, bool options)
{
	const char *word = request->n_args ? request->args[0] : NULL;
	int err;

	for (unsigned int i = 0; word && i < verbs->n; i++) {
		const struct verb *verb = &verbs->all[i];

		if (strcmp(verb->name, word))
			continue;
		err = check(request, verbs, verb, options);
		return err ?: verb->run(request, verb->what);
	}
	return bad_usage(verbs, word, text("expected %s", verbs->expected));
}

const char *verbs_devices(const struct request *request)
{
	return request->n_args > 1 ? request->args[1] : "all devices";
}

struct showing {
	const struct request *request;
	const char *what;
	const struct verb_show *show;
};

static int show_now(void *data)
{
	const struct showing *showing = data;
	const struct request *request = showing->request;
	const char *what = showing->what;
	bool exists;
	int err = pins_lock_read(what, &exists);

	if (!err)
		err = request->n_args > 1 ? showing->show->one(what, request->args[1])
					  : showing->show->all(what);
	pins_unlock();
	return err;
}

int verbs_show(const struct request *request, const char *what, const struct verb_show *show)
{
	struct showing showing = { request, what, show };
	int err = kernel_require_reading(what, verbs_devices(request));

	return err ?: ticker_repeat(what, request->watch_ns, show_now, &showing);
}
