// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf clean [--all]: remove stale pins, the shared maps when no controller is
 * enabled and no flow is left, and the directory itself. What is enabled, or
 * attached to a device, stays, unless --all disables and detaches it first; then
 * the shared maps go even if flows are left, which finish unseen. What is not
 * ours stays always.
 */
#include "aqm.h"
#include "commands.h"
#include "errors.h"
#include "kernel.h"
#include "output.h"
#include "pins.h"
#include "running.h"
#include "sweep.h"
#include "sysdefault.h"
#include "sysecn.h"

#define WHAT "clean"

static int disable_all(struct json_object *removed)
{
	for_each_controller (c) {
		struct running running;
		int err = running_open(WHAT, c, &running);

		if (!err && running.state == RUN_ENABLED) {
			sysdefault_release(c);
			sysecn_release(c);
			json_object_array_add(removed,
					      json_object_new_string(
						      pin_path(c->name, NULL)));
			err = running_remove(WHAT, &running);
		}
		running_close(&running);
		if (err)
			return err;
	}
	return EXIT_OK;
}

static void report(struct json_object *removed, struct json_object *foreign)
{
	struct json_object *doc;

	if (output.json) {
		doc = json_object_new_object();
		json_object_object_add(doc, "removed", removed);
		json_object_object_add(doc, "left", foreign);
		output_json(doc);
		return;
	}
	for (size_t i = 0; i < json_object_array_length(removed); i++)
		printf("removed %s\n",
		       json_object_get_string(
			       json_object_array_get_idx(removed, i)));
	if (!json_object_array_length(removed))
		printf("nothing to remove\n");
	json_object_put(removed);
	json_object_put(foreign);
}

static int clean(const struct request *request)
{
	struct json_object *removed, *foreign;
	int err = request_no_args(request);

	if (!err)
		err = kernel_require_changing(WHAT);
	if (err)
		return err;
	removed = json_object_new_array();
	if (!pin_exists(pins_root())) {
		report(removed, json_object_new_array());
		return EXIT_OK;
	}
	err = pins_lock_change(WHAT);
	if (!err && request->all)
		err = disable_all(removed) ?: aqm_sweep(WHAT, true, removed);
	if (!err) {
		sweep_note_foreign();
		foreign = sweep_foreign();
		err = sweep(WHAT, request->all ? SWEEP_ALL : SWEEP_UNUSED,
			    removed);
		report(removed, foreign);
	} else {
		json_object_put(removed);
	}
	pins_unlock();
	return err;
}

static const struct argp_option options[] = {
	{ "all", OPTION_ALL, 0, 0,
	  "disable what is enabled, detach what is attached first", 0 },
	{ 0 },
};

const struct command cmd_clean = {
	.name = "clean",
	.args = "[--all]",
	.text = "Remove stale pins, never what is not ours",
	.options = options,
	.run = clean,
};
