// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf systemd UNIT [NAME] [-d] [-u]: let systemd put all connections of a unit into the
 * background, in what they send (-u, the default), in what they receive (-d), or in both, by a
 * drop-in file with BPFProgram= (systemd 249) that names a pinned program for each (rules/units.h).
 *
 *   ccbpf systemd UNIT [NAME]          enable the controller and pin its program, unless they
 *                                      are; write the drop-in; remove pins that no other one names
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
#include "rules/rule.h"
#include "rules/units.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

#define WHAT "set up"

enum own_option {
	OWN_PRINT,
	OWN_REMOVE,
};

/* What the unit's connections get. */
struct gift {
	const struct controller *c; /* for what they send, or NULL */
	bool download; /* what they receive is in the background */
};

/* What was made for it. */
struct made {
	bool enabled, pinned, pinned_receiver;
};

static int find_gift(const struct request *request, struct gift *gift)
{
	gift->download = request->download;
	gift->c = NULL;
	if (request->n_args > 2)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = request->args[2],
			    .why = "only one unit and one controller can be named",
			    .remedy = "see `ccbpf help systemd`");
	if (request->download && !request->upload)
		return request->n_args < 2 ? EXIT_OK
					   : rule_fail_only_receives(WHAT, request->args[1]);
	gift->c = request->n_args < 2 ? controller_background() : controller_find(request->args[1]);
	return gift->c ? EXIT_OK : controller_unknown(WHAT, request->args[1]);
}

/* "le", "rx_le" or "le and rx_le". */
static const char *gift_words(const struct gift *gift)
{
	return text("%s%s%s", gift->c ? gift->c->name : "",
		    gift->c && gift->download ? " and " : "", gift->download ? CCBPF_RECEIVER : "");
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

static void undo(const struct gift *gift, const struct made *made)
{
	if (made->pinned_receiver)
		units_remove(WHAT, CCBPF_RECEIVER);
	if (made->pinned)
		units_remove(WHAT, gift->c->name);
	if (made->enabled)
		enable_give_back(gift->c);
}

/* Enable a controller and pin what is named, or nothing. */
static int prepare(const struct gift *gift, struct made *made)
{
	const struct controller *c = gift->c;
	int err;

	*made = (struct made){ 0 };
	err = c ? enable_needed(c, &made->enabled) : EXIT_OK;
	if (!err && c)
		err = units_make(WHAT, c->name, !c->open, &made->pinned);
	if (!err && gift->download)
		err = units_make(WHAT, CCBPF_RECEIVER, false, &made->pinned_receiver);
	if (err)
		undo(gift, made);
	return err;
}

static int lock(void)
{
	int err = kernel_require(WHAT, NULL);

	if (!err)
		err = pins_lock_change(WHAT);
	if (!err)
		err = sweep(WHAT, SWEEP_RESTS, NULL);
	return err;
}

static void report_written(const struct unit *unit, const struct gift *gift)
{
	struct json_object *doc = json_object_new_object();

	add_text(doc, "unit", unit->name);
	add_text(doc, "controller", gift->c ? gift->c->name : NULL);
	add_bool(doc, "upload", gift->c);
	add_bool(doc, "download", gift->download);
	add_text(doc, "file", dropin_path(unit));
	if (!output.json) {
		output_line("%s: %s for all its connections, by %s", unit->name, gift_words(gift),
			    dropin_path(unit));
		output_line("now: `systemctl daemon-reload`, and restart the unit");
	}
	output_answer(EXIT_OK, doc);
}

/* The pins that no drop-in names. */
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

static int write_dropin(const struct unit *unit, const struct gift *gift, const char *words)
{
	bool written = false;
	struct made made;
	int err = prepare(gift, &made);

	if (err)
		return err;
	err = dropin_write(WHAT, unit, words, &written);
	if (err)
		undo(gift, &made);
	if (!err && !made.enabled && !made.pinned && !made.pinned_receiver && !written)
		err = FAIL(EXIT_NOTHING, .what = WHAT, .on = dropin_path(unit),
			   .why = text("it names %s already", gift_words(gift)), .remedy = NULL);
	if (!err && made.enabled)
		enable_note(gift->c);
	if (!err)
		err = remove_unnamed(); /* the drop-in may have named another one before */
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

static int add(const struct unit *unit, const struct gift *gift, bool print)
{
	const char *words;
	int err = dropin_words(WHAT, unit, gift->c ? gift->c->name : NULL, gift->download, &words);

	if (!err && print)
		return print_words(unit, words);
	if (!err)
		err = lock();
	if (!err)
		err = write_dropin(unit, gift, words);
	if (!err) {
		note_hybrid();
		report_written(unit, gift);
	}
	pins_unlock();
	return err;
}

static int remove_dropin(const struct unit *unit)
{
	int err = kernel_require_changing(WHAT, NULL);

	if (!err)
		err = pins_lock_change(WHAT);
	if (err)
		return err;
	err = dropin_remove(WHAT, unit);
	if (!err)
		err = remove_unnamed();
	if (!err)
		err = sweep(WHAT, SWEEP_UNUSED,
			    NULL); /* the map of flows, where nothing else uses it */
	pins_unlock();
	if (!err && !output.json) {
		output_line("%s: removed", dropin_path(unit));
		output_line("now: `systemctl daemon-reload`, and restart the unit");
	}
	return output_answer(err, json_object_new_object());
}

static int prepare_one(const struct gift *gift, struct json_object *list)
{
	struct made made;
	int err = prepare(gift, &made);

	if (err)
		return err;
	json_object_array_add(list, json_text(gift_words(gift)));
	if (!output.json)
		output_line("%s: %sits program is pinned", gift_words(gift),
			    gift->c ? "enabled, and " : "");
	return EXIT_OK;
}

/* What the drop-ins name, one after the other: what one refuses does not keep the others. */
static int prepare_named(struct json_object *list)
{
	struct gift gift = { .download = dropin_names(CCBPF_RECEIVER) };
	int err, first = gift.download ? prepare_one(&gift, list) : EXIT_OK;

	for_each_controller (c) {
		gift = (struct gift){ .c = c };
		err = dropin_names(c->name) ? prepare_one(&gift, list) : EXIT_OK;
		first = first ?: err;
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
	bool directed = request->download || request->upload;
	bool prints = request->own[OWN_PRINT], removes = request->own[OWN_REMOVE];
	struct gift gift;
	struct unit unit;
	int err;

	if (request->all && !request->n_args && !prints && !removes && !directed)
		return prepare_all();
	if (request->all || (prints && removes) || !request->n_args ||
	    (removes && (request->n_args > 1 || directed)))
		return FAIL(EXIT_USAGE, .what = WHAT,
			    .on = request->n_args ? request->args[0] : NULL,
			    .why = request->n_args ? "these arguments do not belong together"
						   : "no unit is named",
			    .remedy = "see `ccbpf help systemd`");
	err = unit_parse(WHAT, request->args[0], &unit);
	if (!err)
		err = find_gift(request, &gift);
	if (err)
		return err;
	return removes ? remove_dropin(&unit) : add(&unit, &gift, prints);
}

static const struct argp_option options[] = {
	{ "download", 'd', 0, 0, "what it receives is in the background", 0 },
	{ "upload", 'u', 0, 0, "what it sends (the default; with --download: both)", 0 },
	{ "print", OPTION_OWN + OWN_PRINT, 0, 0, "write the drop-in to stdout, and do nothing else",
	  0 },
	{ "remove", OPTION_OWN + OWN_REMOVE, 0, 0, "remove the drop-in", 0 },
	{ "all", OPTION_ALL, 0, 0, "at boot: enable and pin what the drop-ins name", 0 },
	{ 0 },
};

const struct command cmd_systemd = {
	.name = "systemd",
	.args = "UNIT [NAME] | --all",
	.text = "Give a unit's connections a controller",
	.more = "Writes /etc/systemd/system/UNIT.d/50-ccbpf.conf, by which systemd (249 or newer, cgroup v2) attaches a pinned "
		"program to the unit whenever it starts: all its connections get the controller NAME, by default `le`, "
		"unless the program chooses one itself. With --download their receive windows yield instead, by another pinned program; with "
		"--upload as well, both directions are in the background. UNIT is a service, slice, socket or scope. The pin does not "
		"survive a reboot: the drop-in starts ccbpf-units.service, which pins the program again (`ccbpf systemd --all`) before the unit starts.",
	.options = options,
	.run = systemd,
};
