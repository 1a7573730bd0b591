// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf disable NAME…|--all: unregister. Flows in use finish under the old
 * controller: the kernel keeps its programs for them, and the shared maps stay
 * until the last one is gone.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cc/flows.h"
#include "cc/running.h"
#include "sys/shared.h"
#include "cc/sysdefault.h"
#include "cc/sysecn.h"
#include "cmd/disable.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "rules/standing.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

#define WHAT "disable"

/*
 * How many flows finish under `c`. 0 where that cannot be read: the count is a
 * courtesy.
 */
static size_t count_flows(const struct controller *c)
{
	struct flow *flows = NULL;
	size_t n = 0, left = 0;
	int fd;

	if (shared_open(WHAT, SHARED_FLOWS, &fd) || fd < 0)
		return 0;
	if (flows_read(fd, &flows, &n) == 0)
		left = flows_count(flows, n, c, 0).draining;
	free(flows);
	close(fd);
	return left;
}

int disable_running(const char *what, struct running *running, const char **restored,
		    const char **ecn)
{
	*restored = sysdefault_release(running->controller);
	*ecn = sysecn_release(running->controller);
	return attachment_remove(what, &running->attachment);
}

/* The rules that give it stay, and give nothing meanwhile. */
static void note_rules(const struct controller *c)
{
	struct standing standing;
	unsigned int n = 0;

	if (standing_read_quietly(&standing))
		return;
	for (unsigned int i = 0; !standing.detached && i < standing.n; i++)
		n += !strcmp(standing.rules[i].choice.controller, c->name);
	standing_close(&standing);
	if (n)
		note(c->name,
		     text("%u rule%s: until it is enabled again, new connections get the default in its place",
			  n, n == 1 ? " gives it" : "s give it"),
		     "`ccbpf assign list` shows the rules");
}

static int disable_one(struct running *running, struct json_object *list)
{
	const struct controller *c = running->controller;
	struct json_object *entry = json_object_new_object();
	size_t draining = count_flows(c);
	const char *restored, *ecn;
	int err = disable_running(WHAT, running, &restored, &ecn);

	if (err) {
		json_object_put(entry);
		return err;
	}
	add_text(entry, "name", c->name);
	add_number(entry, "draining", draining);
	add_text(entry, "restored_default", restored);
	add_text(entry, "restored_ecn", ecn);
	json_object_array_add(list, entry);
	if (!output.json)
		output_line("%s disabled%s%s%s", c->name,
			    draining ? text(", %zu flow%s will finish under it", draining,
					    draining == 1 ? "" : "s")
				     : "",
			    restored ? text("; the default is %s again", restored) : "",
			    ecn ? text("; net.ipv4.tcp_ecn is %s again", ecn) : "");
	note_rules(c);
	return EXIT_OK;
}

/* NULL: no controller is enabled. */
static int nothing_to_disable(const struct controller *c)
{
	return FAIL(EXIT_NOTHING, .what = WHAT, .on = c ? c->name : "any",
		    .why = c ? "it is not enabled" : "no controller is enabled");
}

/*
 * The state of every named controller, all of which must be enabled; with
 * `all`, of those that are.
 */
static int open_named(const struct controller **named, unsigned int n, bool all,
		      struct running *running, unsigned int *n_running)
{
	for (unsigned int i = 0; i < n; i++) {
		struct running *r = &running[*n_running];
		int err = running_open(WHAT, named[i], r);

		if (!err && running_is_enabled(r)) {
			(*n_running)++;
			continue;
		}
		if (!err && !all)
			err = r->attachment.state == ATTACHMENT_ABSENT
				      ? nothing_to_disable(named[i])
				      : running_absent(WHAT, r);
		running_close(r);
		if (err)
			return err;
	}
	return *n_running ? EXIT_OK : nothing_to_disable(NULL);
}

static int disable_named(const struct controller **named, unsigned int n, bool all)
{
	struct running running[CCBPF_KINDS];
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();
	unsigned int n_running = 0;
	int err = open_named(named, n, all, running, &n_running);

	json_object_object_add(doc, "disabled", list);
	for (unsigned int i = 0; !err && i < n_running; i++)
		err = disable_one(&running[i], list);
	for (unsigned int i = 0; i < n_running; i++)
		running_close(&running[i]);
	if (!err ||
	    (all && err == EXIT_NOTHING)) { /* an interrupted one may have left pins alone */
		int failed;

		sweep_note_foreign();
		failed = sweep(WHAT, SWEEP_UNUSED, NULL);
		err = err ?: failed;
	}
	return output_answer_of(err, doc, list);
}

static int disable(const struct request *request)
{
	const struct controller *named[CCBPF_KINDS];
	unsigned int n;
	int err = request_controllers(request, request->all ? 0 : 1, named, &n, NULL);

	if (!err && request->all && n)
		err = FAIL(EXIT_USAGE, .what = WHAT, .on = named[0]->name,
			   .why = "--all takes no names", .remedy = "give names or --all");
	if (!err)
		err = kernel_require_changing(WHAT, NULL);
	if (err)
		return err;
	for (n = request->all ? 0 : n; request->all && n < n_controllers; n++)
		named[n] = &controllers[n];
	err = pin_exists(pins_root()) ? pins_lock_change(WHAT)
				      : nothing_to_disable(request->all ? NULL : named[0]);
	if (err)
		return err;
	err = disable_named(named, n, request->all);
	pins_unlock();
	return err;
}

static const struct argp_option options[] = {
	{ "all", OPTION_ALL, 0, 0, "all that are enabled", 0 },
	{ 0 },
};

const struct command cmd_disable = {
	.name = "disable",
	.args = "NAME...|--all",
	.text = "Disable controllers; their flows finish",
	.options = options,
	.run = disable,
};
