// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf clean [--all]: remove stale pins, the shared maps when no controller is
 * enabled, no rule stands and no flow is left, and the directory itself. What is enabled, or
 * attached to a device, stays, unless --all disables and detaches it first; then
 * the shared maps go even if flows are left, which finish unseen. What is not
 * ours stays always.
 */
#include "cc/sysdefault.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"

#define WHAT "clean"

static void report(struct json_object *removed, struct json_object *foreign, int err)
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
		output_line("removed %s",
			    json_object_get_string(json_object_array_get_idx(removed, i)));
	if (!err && !json_object_array_length(removed))
		output_line("nothing to remove");
	json_object_put(removed);
	json_object_put(foreign);
}

static int clean(const struct request *request)
{
	struct json_object *removed, *foreign;
	int err = request_no_args(request);

	if (!err)
		err = kernel_require_changing(WHAT, NULL);
	if (err)
		return err;
	removed = json_object_new_array();
	if (!pin_exists(pins_root())) {
		sysdefault_settle(false);
		report(removed, json_object_new_array(), EXIT_OK);
		return EXIT_OK;
	}
	err = pins_lock_change(WHAT);
	if (err) {
		json_object_put(removed);
		return err;
	}
	sweep_note_foreign();
	foreign = sweep_foreign();
	err = sweep(WHAT, request->all ? SWEEP_ALL : SWEEP_UNUSED, removed);
	report(removed, foreign, err);
	pins_unlock();
	return err;
}

static const struct argp_option options[] = {
	{ "all", OPTION_ALL, 0, 0,
	  "also disable all controllers, and detach and end everything else", 0 },
	{ 0 },
};

const struct command cmd_clean = {
	.name = "clean",
	.args = "[--all]",
	.text = "Remove stale pins; with --all end everything of ccbpf",
	.more = "--all removes controllers, rules, queues, gateways, runs, prepared cgroups and the pins of units, opens the "
		"receive windows that are held, and restores the sysctls that ccbpf has set in the network namespace in which it runs; a note says how to set those of others. The processes of a run go on. Open connections keep their controller until they close; `ccbpf renice` gives "
		"them another one. Drop-ins of systemd and /etc/ccbpf.toml stay.",
	.options = options,
	.run = clean,
};
