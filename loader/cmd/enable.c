// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf enable NAME… [--set KEY=VALUE…] [--default] [--ecn]: load, register, pin. All
 * of them or none: what this call did is undone when one fails. Everything is
 * validated before the kernel is touched. Where all are enabled already, --default and
 * --ecn are what is left to do.
 *
 * Order, so that a kill at any instruction leaves something that the next ccbpf
 * understands: shared maps; register (the process holds the link); params,
 * identity; the link's pin last. Without links the map `ops` is pinned before
 * it is registered.
 */
#include <string.h>

#include "cc/program.h"
#include "cc/running.h"
#include "cc/sysdefault.h"
#include "cc/sysecn.h"
#include "cmd/enable.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

#define WHAT "enable"

/* One controller on its way. */
struct enabling {
	const struct controller *controller;
	struct settings settings;
	struct program program;
	const char *file; /* that wants it, and the line there: enable_with() */
	unsigned int line;
	bool pinning; /* pins of this call may be there */
};

/* A step of each, until one fails. */
static int each(struct enabling *enabling, unsigned int n, int (*step)(struct enabling *))
{
	int err = EXIT_OK;

	for (unsigned int i = 0; !err && i < n; i++) {
		fault_place(enabling[i].line ? enabling[i].file : NULL, enabling[i].line);
		err = step(&enabling[i]);
	}
	fault_place(NULL, 0);
	return err;
}

static int refuse_enabled(struct enabling *enabling)
{
	const char *name = enabling->controller->name;
	struct running running;
	int err = running_open(WHAT, enabling->controller, &running);

	if (!err && running_is_enabled(&running))
		err = FAIL(
			EXIT_NOTHING, .what = WHAT, .on = name,
			.why = text("it is already enabled (%s)", running_handle(&running)),
			.remedy = text(
				"`ccbpf reload %s` loads it anew, `ccbpf set %s` changes parameters",
				name, name));
	else if (!err && running.attachment.state == ATTACHMENT_UNREADABLE)
		err = running_absent(WHAT, &running);
	running_close(&running);
	return err;
}

static int load(struct enabling *enabling)
{
	struct values values = values_default(enabling->controller);
	int err;

	settings_apply(enabling->controller, &enabling->settings, &values);
	err = program_open(WHAT, &enabling->program, enabling->controller, &values, -1);
	if (!err)
		err = program_load(WHAT, &enabling->program);
	if (!err && kernel_has_links())
		err = program_attach(WHAT, &enabling->program);
	return err;
}

static int pin(struct enabling *enabling)
{
	const struct program *program = &enabling->program;
	const struct running running = running_of(enabling->controller);
	const char *link = attachment_path(&running.attachment, PIN_LINK);
	const char *ops = attachment_path(&running.attachment, PIN_OPS);
	int err;

	enabling->pinning = true;
	err = attachment_pin_maps(WHAT, &running.attachment, program->obj);
	if (err)
		return err;
	if (kernel_has_links())
		return pin_make(WHAT, bpf_link__fd(program->link), link);
	err = pin_make(WHAT, bpf_map__fd(program->ops), ops);
	if (!err)
		err = program_attach(WHAT, &enabling->program);
	return err;
}

/* Take back what this call did. */
static void undo(struct enabling *enabling, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct running running;

		program_close(&enabling[i].program);
		if (!enabling[i].pinning || running_open(WHAT, enabling[i].controller, &running))
			continue;
		attachment_remove(WHAT, &running.attachment);
		running_close(&running);
	}
	sweep(WHAT, SWEEP_UNUSED, NULL);
}

/* --default, --ecn: both or none */
static int set_options(const struct controller *make_default, bool ecn)
{
	int err = make_default ? sysdefault_set(WHAT, make_default) : EXIT_OK;

	if (err || !ecn)
		return err;
	err = sysecn_set(WHAT);
	if (err && make_default)
		sysdefault_release(make_default);
	return err;
}

static bool all_enabled(const struct enabling *enabling, unsigned int n)
{
	bool all = true;

	for (unsigned int i = 0; all && i < n; i++) {
		struct running running;

		if (running_open(WHAT, enabling[i].controller, &running))
			return false;
		all = running_is_enabled(&running);
		running_close(&running);
	}
	return all;
}

static int enable_all(struct enabling *enabling, unsigned int n,
		      const struct controller *make_default, bool ecn)
{
	int err = each(enabling, n, refuse_enabled);

	if (!err)
		err = sweep(WHAT, SWEEP_RESTS, NULL);
	if (err)
		return err;
	err = each(enabling, n, load);
	if (!err)
		err = each(enabling, n, pin);
	if (!err)
		err = set_options(make_default, ecn);
	if (err)
		undo(enabling, n);
	return err;
}

/* Who wants ECN, or its echo of each packet's mark, and cannot have it from here. */
static void note_ecn(const struct enabling *enabling, unsigned int n)
{
	enum sysecn ecn = sysecn_now();

	for (unsigned int i = 0; i < n; i++) {
		const struct controller *c = enabling[i].controller;

		if (ecn == SYSECN_NONE ? controller_wants_ecn(c)
				       : ecn == SYSECN_ACCURATE && controller_wants_echo(c))
			note(c->name,
			     text("%s (%s): it gets no marks%s", sysecn_lacks(), sysecn_text(),
				  ecn == SYSECN_ACCURATE ? " of its chirps" : ""),
			     sysecn_remedy());
	}
}

/* --default and --ecn fit what is named. */
static int check_options(const struct request *request, const struct controller **named,
			 unsigned int n)
{
	bool wanted = false;

	if (request->make_default && n > 1)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = text("%u controllers", n),
			    .why = "only one can be the default",
			    .remedy = "give --default with one name");
	for (unsigned int i = 0; i < n; i++)
		wanted |= controller_wants_ecn(named[i]);
	if (request->ecn && !wanted)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = named[0]->name,
			    .why = "marks are not its signal",
			    .remedy = "give --ecn with tcp_lp_ecn or nf_tcp");
	return EXIT_OK;
}

static void report(struct enabling *enabling, unsigned int n, const struct controller *make_default)
{
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();

	for (unsigned int i = 0; i < n; i++) {
		const struct controller *c = enabling[i].controller;
		struct running running;

		if (running_open(WHAT, c, &running))
			continue;
		json_object_array_add(list, running_json(&running));
		if (!output.json)
			output_line("%s enabled (%s)%s", c->name, running_handle(&running),
				    c == make_default ? ", and the default" : "");
		running_close(&running);
	}
	json_object_object_add(doc, "enabled", list);
	add_text(doc, "default", sysdefault_now());
	output_answer(EXIT_OK, doc);
}

static int enable(const struct request *request)
{
	struct enabling enabling[CCBPF_KINDS] = { 0 };
	const struct controller *named[CCBPF_KINDS], *make_default = NULL;
	unsigned int n;
	int err = request_controllers(request, 1, named, &n, NULL);

	for (unsigned int i = 0; !err && i < n; i++) {
		enabling[i].controller = named[i];
		err = settings_parse(WHAT, named[i], request->sets, request->n_sets,
				     &enabling[i].settings);
	}
	if (!err)
		err = check_options(request, named, n);
	if (!err)
		err = kernel_require(WHAT, NULL);
	if (!err)
		err = pins_lock_change(WHAT);
	if (err)
		return err;
	make_default = request->make_default ? named[0] : NULL;
	if ((make_default || request->ecn) && !request->n_sets && all_enabled(enabling, n))
		err = set_options(make_default, request->ecn);
	else
		err = enable_all(enabling, n, make_default, request->ecn);
	if (!err) {
		sweep_note_foreign();
		note_ecn(enabling, n);
		report(enabling, n, make_default);
	}
	for (unsigned int i = 0; i < n; i++)
		program_close(&enabling[i].program);
	pins_unlock();
	return err;
}

int enable_needed(const struct controller *c, bool *did)
{
	struct enabling enabling = { .controller = c };
	int err;

	*did = !all_enabled(&enabling, 1);
	err = *did ? enable_all(&enabling, 1, NULL, false) : EXIT_OK;
	program_close(&enabling.program);
	return err;
}

void enable_give_back(const struct controller *c)
{
	struct enabling enabling = { .controller = c, .pinning = true };

	undo(&enabling, 1);
}

void enable_note(const struct controller *c)
{
	note(c->name, "it was not enabled, and is now",
	     text("`ccbpf disable %s` disables it", c->name));
}

int enable_with(const char *file, const struct enable_wanted *wanted, unsigned int n)
{
	struct enabling enabling[CCBPF_KINDS] = { 0 };
	int err;

	for (unsigned int i = 0; i < n; i++) {
		enabling[i].controller = wanted[i].controller;
		enabling[i].settings.values = wanted[i].values;
		memset(enabling[i].settings.given, true, wanted[i].controller->n_params);
		enabling[i].file = file;
		enabling[i].line = wanted[i].line;
	}
	err = enable_all(enabling, n, NULL, false);
	for (unsigned int i = 0; i < n; i++)
		program_close(&enabling[i].program);
	return err;
}

static const struct argp_option options[] = { ROW_SET, ROW_DEFAULT, ROW_ECN, { 0 } };

const struct command cmd_enable = {
	.name = "enable",
	.args = "NAME... [--set KEY=VALUE] [--default] [--ecn]",
	.text = "Load controllers and make them selectable",
	.more = "All of the named controllers are enabled, or none. A program selects one by setsockopt(TCP_CONGESTION); "
		"--default writes net.ipv4.tcp_congestion_control. --ecn writes net.ipv4.tcp_ecn, for controllers whose signal is a mark. Both also "
		"work for controllers that are already enabled; `ccbpf disable` restores the former values. Controllers are enabled until the host reboots; "
		"`ccbpf apply` at boot enables those of a file.",
	.options = options,
	.shows_params = true,
	.run = enable,
};
