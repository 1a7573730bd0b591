// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf systemd UNIT [NAME]: let systemd put all connections of a unit into the background,
 * by a drop-in file with BPFProgram= (systemd 249) that names a pinned program (rules/units.h).
 *
 *   ccbpf systemd UNIT [NAME]          enable the controller and pin its program, unless they
 *                                      are; write the drop-in
 *   ccbpf systemd UNIT [NAME] --print  write the drop-in to stdout and nothing else
 *   ccbpf systemd UNIT --remove        remove the drop-in, and pins that no other one names
 *   ccbpf systemd --all                at boot: enable and pin what the drop-ins name
 *
 * systemd reads the file when it is told (`systemctl daemon-reload`).
 */
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "cmd/enable.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "rules/dropin.h"
#include "rules/units.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

#define WHAT "set up"

static int find_controller(const struct request *request, const struct controller **c)
{
	if (request->n_args > 2)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = request->args[2],
			    .why = "only one unit and one controller can be named",
			    .remedy = "see `ccbpf help systemd`");
	*c = request->n_args < 2 ? controller_background() : controller_find(request->args[1]);
	return *c ? EXIT_OK : controller_unknown(WHAT, request->args[1]);
}

/* With a hierarchy of version 1 beside it systemd ignores BPFProgram=. */
static void note_hybrid(void)
{
	struct statfs fs;

	if (!statfs("/sys/fs/cgroup", &fs) && fs.f_type != CGROUP2_SUPER_MAGIC)
		note("/sys/fs/cgroup",
		     "it is not cgroup v2 alone: systemd ignores BPFProgram= on such a host",
		     "boot with systemd.unified_cgroup_hierarchy=1, or use `ccbpf assign`");
}

/* Enable a controller and pin its program, or neither. */
static int prepare(const struct controller *c, bool *enabled, bool *pinned)
{
	int err = enable_needed(c, enabled);

	*pinned = false;
	if (!err)
		err = units_make(WHAT, c->name, !c->open, pinned);
	if (err && *enabled)
		enable_give_back(c);
	return err;
}

static int lock(void)
{
	int err = kernel_require(WHAT);

	if (!err)
		err = pins_lock_change(WHAT);
	if (!err)
		err = sweep(WHAT, SWEEP_RESTS, NULL);
	return err;
}

static void report_written(const struct unit *unit, const struct controller *c)
{
	struct json_object *doc = json_object_new_object();

	add_text(doc, "unit", unit->name);
	add_text(doc, "controller", c->name);
	add_text(doc, "file", dropin_path(unit));
	if (!output.json) {
		output_line("%s: %s for all its connections, by %s", unit->name, c->name,
			    dropin_path(unit));
		output_line("now: `systemctl daemon-reload`, and restart the unit");
	}
	output_answer(EXIT_OK, doc);
}

static int write_dropin(const struct unit *unit, const struct controller *c, const char *words)
{
	bool enabled = false, pinned = false, written = false;
	int err = prepare(c, &enabled, &pinned);

	if (err)
		return err;
	err = dropin_write(WHAT, unit, words, &written);
	if (err && pinned)
		units_remove(WHAT, c->name);
	if (err && enabled)
		enable_give_back(c);
	if (!err && !enabled && !pinned && !written)
		err = FAIL(EXIT_NOTHING, .what = WHAT, .on = dropin_path(unit),
			   .why = text("it names %s already", c->name), .remedy = NULL);
	if (!err && enabled)
		note(c->name, "it was not enabled, and is now",
		     text("`ccbpf disable %s` disables it", c->name));
	return err;
}

/* Line by line, as the output of both sorts has them. */
static int print_words(const struct unit *unit, const char *words)
{
	struct json_object *doc = json_object_new_object(), *lines = json_object_new_array();

	for (size_t length; *words; words += length + 1) {
		const char *line;

		length = strcspn(words, "\n");
		line = text("%.*s", (int)length, words);
		json_object_array_add(lines, json_text(line));
		if (!output.json)
			output_line("%s", line);
	}
	add_text(doc, "file", dropin_path(unit));
	json_object_object_add(doc, "lines", lines);
	return output_answer(EXIT_OK, doc);
}

static int add(const struct unit *unit, const struct controller *c, bool print)
{
	const char *words;
	int err = dropin_words(WHAT, unit, c->name, &words);

	if (!err && print)
		return print_words(unit, words);
	if (!err)
		err = lock();
	if (!err)
		err = write_dropin(unit, c, words);
	if (!err) {
		note_hybrid();
		report_written(unit, c);
	}
	pins_unlock();
	return err;
}

/* The pins of controllers that no drop-in names. */
static int remove_unnamed(void)
{
	struct unit_program *units;
	unsigned int n = units_read(&units);
	int err = EXIT_OK;

	for (unsigned int i = 0; !err && i < n; i++)
		if (!dropin_names(units[i].controller))
			err = units_remove(WHAT, units[i].controller);
	units_free(units, n);
	return err;
}

static int remove_dropin(const struct unit *unit)
{
	int err = kernel_require_changing(WHAT);

	if (!err)
		err = pins_lock_change(WHAT);
	if (err)
		return err;
	err = dropin_remove(WHAT, unit);
	if (!err)
		err = remove_unnamed();
	pins_unlock();
	if (!err && !output.json) {
		output_line("%s: removed", dropin_path(unit));
		output_line("now: `systemctl daemon-reload`, and restart the unit");
	}
	return output_answer(err, json_object_new_object());
}

/* What the drop-ins name, one after the other: what one refuses does not keep the others. */
static int prepare_named(struct json_object *list)
{
	int first = EXIT_OK;

	for_each_controller (c) {
		bool enabled, pinned;
		int err;

		if (!dropin_names(c->name))
			continue;
		err = prepare(c, &enabled, &pinned);
		if (!first)
			first = err;
		if (err)
			continue;
		json_object_array_add(list, json_text(c->name));
		if (!output.json)
			output_line("%s: enabled, and its program is pinned", c->name);
	}
	return first;
}

static int prepare_all(void)
{
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();
	int err = lock();

	json_object_object_add(doc, "controllers", list);
	if (!err) {
		err = prepare_named(list);
		if (!err && !json_object_array_length(list))
			err = FAIL(EXIT_NOTHING, .what = WHAT, .on = "--all",
				   .why = "no unit has a drop-in of ccbpf",
				   .remedy = "`ccbpf systemd UNIT` writes one");
	}
	pins_unlock();
	return output_answer(err, doc);
}

static int systemd(const struct request *request)
{
	const struct controller *c;
	struct unit unit;
	int err;

	if (request->all && !request->n_args && !request->print && !request->remove)
		return prepare_all();
	if (request->all || (request->print && request->remove) || !request->n_args ||
	    (request->remove && request->n_args > 1))
		return FAIL(EXIT_USAGE, .what = WHAT,
			    .on = request->n_args ? request->args[0] : NULL,
			    .why = request->n_args ? "these arguments do not belong together"
						   : "no unit is named",
			    .remedy = "see `ccbpf help systemd`");
	err = unit_parse(WHAT, request->args[0], &unit);
	if (!err)
		err = find_controller(request, &c);
	if (err)
		return err;
	return request->remove ? remove_dropin(&unit) : add(&unit, c, request->print);
}

static const struct argp_option options[] = {
	{ "print", OPTION_PRINT, 0, 0, "write the drop-in to stdout, and do nothing else", 0 },
	{ "remove", OPTION_REMOVE, 0, 0, "remove the drop-in", 0 },
	{ "all", OPTION_ALL, 0, 0, "at boot: enable and pin what the drop-ins name", 0 },
	{ 0 },
};

const struct command cmd_systemd = {
	.name = "systemd",
	.args = "UNIT [NAME] | --all",
	.text = "Give a unit's connections a controller",
	.more = "Writes /etc/systemd/system/UNIT.d/50-ccbpf.conf, by which systemd (249 or newer, cgroup v2) attaches a pinned "
		"program to the unit whenever it starts: all its connections get the controller NAME, by default `tcp_lp`, "
		"unless the program chooses one itself. UNIT is a service, slice, socket or scope. The pin does not survive a "
		"reboot: a unit ccbpf-units.service that runs `ccbpf systemd --all` makes it again, before the unit starts.",
	.options = options,
	.run = systemd,
};
