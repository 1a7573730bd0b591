/* SPDX-License-Identifier: GPL-2.0-only */
/* Commands that have verbs for a device: `ccbpf aqm attach eth0`, `ccbpf gateway show`. */
#ifndef CCBPF_VERBS_H
#define CCBPF_VERBS_H

#include "commands.h"

/* A verb: its name, what it is called in an error ("show nf_red of"), and what it does. */
struct verb {
	const char *name, *what;
	int (*run)(const struct request *request, const char *what);
	bool takes_options; /* those of its command: --limit and so on */
	bool takes_device; /* must have one, unless --all */
};

/* Those of a command. Only `detach` takes --all, and only `show` --watch. */
struct verbs {
	const char *command;
	const struct verb *all;
	unsigned int n;
	const char *expected; /* "attach, show or detach" */
	const char *options; /* "only attach takes …": which verbs take options */
};

/* Run the one that is asked for; `options`: one of the command's own was given. Returns the exit code. */
int verbs_run(const struct request *request, const struct verbs *verbs, bool options);

/* What an error is about: the device that is named, or "all devices". */
const char *verbs_devices(const struct request *request);

/* What `show` does, once or again and again: with a device `one`, without `all`, under the lock. */
struct verb_show {
	int (*one)(const char *what, const char *device);
	int (*all)(const char *what);
};
int verbs_show(const struct request *request, const char *what, const struct verb_show *show);

#endif
