// SPDX-License-Identifier: GPL-2.0-only
/* Removing what is of no use any more: see sweep.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm/aqm.h"
#include "cc/flows.h"
#include "cc/running.h"
#include "sys/shared.h"
#include "cc/sysdefault.h"
#include "cc/sysecn.h"
#include "cmd/sweep.h"
#include "config/applied.h"
#include "gateway/gateway.h"
#include "out/errors.h"
#include "out/json.h"
#include "rules/moved.h"
#include "rules/run.h"
#include "rules/standing.h"
#include "rules/units.h"
#include "sys/pins.h"

static void report(struct json_object *removed, const char *path)
{
	if (removed)
		json_object_array_add(removed, json_text(path));
}

/*
 * The controllers; what one refuses does not keep the others. `*enabled`: how many are left
 * that are enabled, or may be. Returns EXIT_OK or the first exit code.
 */
static int sweep_controllers(const char *what, bool all, unsigned int *enabled,
			     struct json_object *removed)
{
	int first = EXIT_OK;

	for_each_controller (c) {
		struct running running;
		int err = running_open(what, c, &running);

		if (!err) {
			attachment_settle(&running.attachment);
			if (attachment_goes(&running.attachment, all)) {
				sysdefault_release(c);
				sysecn_release(c);
			}
			err = attachment_sweep(what, &running.attachment, all, removed);
		}
		*enabled += err || running_is_enabled(&running);
		running_close(&running);
		if (!first)
			first = err;
	}
	return first;
}

/* Whether `flows` has a record, or may have. What is no such map holds none. */
static bool flows_left(void)
{
	int fd = shared_open_quietly(SHARED_FLOWS);
	bool left;
	__u64 key;

	if (fd < 0)
		return fd != -ENOENT && fd != -EMEDIUMTYPE;
	left = bpf_map_get_next_key(fd, NULL, &key) == 0;
	close(fd);
	return left;
}

/* Those that hold back what is received. */
struct receivers {
	bool rules, units, moved;
	struct run *runs;
	unsigned int n_runs;
	struct gateway_name *gateways;
	unsigned int n_gateways;
};

/* Whether the records of what is received are of rules, units, a run or a gateway that there are. */
static bool is_live(const struct receivers *there, __u64 instance)
{
	if (instance == CCBPF_RECEIVED_BY_RULE)
		return there->rules;
	if (instance == CCBPF_RECEIVED_BY_UNIT)
		return there->units;
	if (instance == CCBPF_RECEIVED_BY_RENICE)
		return there->moved;
	for (unsigned int i = 0; i < there->n_runs; i++)
		if (there->runs[i].known && there->runs[i].about.started_ns == instance)
			return true;
	for (unsigned int i = 0; i < there->n_gateways; i++)
		if (there->gateways[i].instance == instance)
			return true;
	return false;
}

/* A connection may end after its run, its rule or its unit, and after the program that would remove its record. */
static void sweep_records(void)
{
	int fd = shared_open_quietly(SHARED_FLOWS);
	struct receivers there = { 0 };
	struct flow *flows = NULL;
	size_t n = 0;

	if (fd < 0)
		return;
	there.rules = standing_receives();
	there.units = units_receive();
	there.moved = moved_is_pinned();
	there.n_runs = runs_read(&there.runs);
	there.n_gateways = gateway_names(&there.gateways);
	if (flows_read(fd, &flows, &n) == 0)
		for (size_t i = 0; i < n; i++)
			if (flows[i].record.kind == CCBPF_KIND_rx_le &&
			    !is_live(&there, flows[i].record.instance))
				bpf_map_delete_elem(fd, &flows[i].key);
	free(flows);
	free(there.runs);
	free(there.gateways);
	close(fd);
}

/* What `renice --download` holds: with `all`, or where a command was killed at that, all is let go. */
static int sweep_moved(const char *what, bool all, struct json_object *removed)
{
	if (!moved_is_pinned())
		return moved_remove(what, removed); /* its directory */
	if (all || moved_is_going())
		moved_release(what);
	else if (moved_holds())
		return EXIT_OK;
	return moved_remove(what, removed);
}

/* Whether rules, or what holds receive windows or will, write the shared maps. */
static bool others_write(void)
{
	struct run *runs;
	unsigned int n = runs_read(&runs);
	bool any = standing_is_pinned() || units_receive() || moved_is_pinned() ||
		   gateway_is_pinned();

	while (n-- > 0)
		any |= runs[n].about.directions & CCBPF_RUN_DOWNLOAD;
	free(runs);
	return any;
}

/* Whether `ccbpf trace` runs: it listens to the shared maps. */
static bool trace_runs(void)
{
	return pin_dir_is_held(pin_path(PINS_TRACE, NULL));
}

/*
 * Restore the sysctls that nobody needs any more. What was remembered goes, but
 * stays where it could not be restored, so that a later `clean` can; unless `all`
 * is to go. The same of what a file has (config/applied.h).
 */
static void sweep_sysctls(bool all, bool enabled)
{
	bool keep_default = sysdefault_settle(enabled) && !all, keep_ecn = sysecn_settle() && !all;

	if (!enabled)
		pin_remove(pin_path(PINS_APPLIED, NULL));
	if (!enabled && !keep_default)
		pin_remove(pin_path("default", NULL));
	if (!enabled && !keep_ecn)
		pin_remove(pin_path("ecn", NULL));
}

/* All that can be. Returns EXIT_OK or the first exit code. */
static int sweep_shared(const char *what, struct json_object *removed)
{
	int first = EXIT_OK;

	for (int i = 0; i < SHARED_MAPS; i++) {
		const char *path = pin_path(shared_name(i), NULL);
		bool there = pin_exists(path);
		int err = pin_remove(path);

		if (err)
			err = fail_errno(what, path, err);
		else if (there)
			report(removed, path);
		if (!first)
			first = err;
	}
	return first;
}

int sweep(const char *what, enum sweep_extent extent, struct json_object *removed)
{
	bool all = extent == SWEEP_ALL;
	unsigned int enabled = 0;
	int failed, err = tchook_sweep(what, &aqm_kind, all, removed);

	failed = gateway_sweep(what, all, removed);
	if (!err)
		err = failed;
	failed = sweep_controllers(what, all, &enabled, removed);
	if (!err)
		err = failed;
	failed = runs_sweep(what, all, removed);
	if (!err)
		err = failed;
	failed = standing_sweep(what, all, removed);
	if (!err)
		err = failed;
	failed = units_sweep(what, all, removed);
	if (!err)
		err = failed;
	failed = sweep_moved(what, all, removed);
	if (!err)
		err = failed;
	sweep_records();
	if (extent == SWEEP_RESTS)
		return err;
	sweep_sysctls(all, enabled);
	if (enabled || trace_runs() || others_write())
		return err;
	pin_remove_dir(pin_path(PINS_TRACE, NULL));
	if (!all && flows_left())
		return err;
	failed = sweep_shared(what, removed);
	if (!err)
		err = failed;
	if (!failed && pin_remove_dir(pins_root()) == 0)
		report(removed, pins_root());
	return err;
}

/* Whether a name is ours in the pin directory. */
static bool is_ours(void *data, const char *name)
{
	static const char *const names[] = { PINS_TRACE, "default",   "ecn",	PINS_APPLIED,
					     AQM_DIR,	 GATEWAY_DIR, RUNS_DIR, STANDING_DIR,
					     UNITS_DIR,	 MOVED_DIR };

	(void)data;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	for (int i = 0; i < SHARED_MAPS; i++)
		if (strcmp(name, shared_name(i)) == 0)
			return true;
	return controller_find(name);
}

struct json_object *sweep_foreign(void)
{
	struct json_object *foreign = json_object_new_array();

	foreign_in(NULL, is_ours, NULL, foreign);
	for_each_controller (c) {
		struct running running = running_of(c);

		attachment_foreign(&running.attachment, foreign);
	}
	tchook_foreign((const struct tchook_kind *const[]){ &aqm_kind }, 1, foreign);
	gateway_foreign(foreign);
	runs_collect_foreign(foreign);
	standing_collect_foreign(foreign);
	units_collect_foreign(foreign);
	moved_collect_foreign(foreign);
	return foreign;
}

void sweep_note_foreign(void)
{
	struct json_object *foreign = sweep_foreign();

	for (size_t i = 0; i < json_object_array_length(foreign); i++)
		note(json_object_get_string(json_object_array_get_idx(foreign, i)),
		     "not made by ccbpf, left alone", "remove it yourself if nobody needs it");
	json_object_put(foreign);
}
