// SPDX-License-Identifier: GPL-2.0-only
/* Removing what is of no use any more: see sweep.h. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm/aqm.h"
#include "aqm/sweep.h"
#include "cc/running.h"
#include "cc/shared.h"
#include "cc/sysdefault.h"
#include "cc/sysecn.h"
#include "cmd/sweep.h"
#include "out/errors.h"
#include "out/json.h"
#include "sys/pins.h"

static void report(struct json_object *removed, const char *path)
{
	if (removed)
		json_object_array_add(removed, json_text(path));
}

/*
 * Remove what interrupted commands left of the controllers. `*enabled`: how
 * many are.
 */
static int sweep_controllers(const char *what, bool unreadable, unsigned int *enabled,
			     struct json_object *removed)
{
	for_each_controller (c) {
		struct running running;
		int err = running_open(what, c, &running);

		if (err)
			return err;
		running_settle(&running);
		*enabled += running.state == RUN_ENABLED;
		if (running_is_rest(&running) || (unreadable && running.state == RUN_UNREADABLE)) {
			sysdefault_release(c);
			sysecn_release(c);
			err = running_remove(what, &running);
			if (!err)
				report(removed, pin_path(c->name, NULL));
		}
		running_close(&running);
		if (err)
			return err;
	}
	return EXIT_OK;
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

/* Whether `ccbpf trace` runs: it listens to the shared maps. */
static bool trace_runs(void)
{
	int fd = pin_lock_dir(pin_path(PINS_TRACE, NULL));

	if (fd >= 0)
		close(fd);
	return fd == -EWOULDBLOCK;
}

/*
 * Restore the sysctls that nobody needs any more. What was remembered goes, but
 * stays where it could not be restored, so that a later `clean` can; unless `all`
 * is to go.
 */
static void sweep_sysctls(bool all, bool enabled)
{
	bool keep_default = sysdefault_settle(enabled) && !all, keep_ecn = sysecn_settle() && !all;

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
	unsigned int enabled = 0;
	int err = aqm_sweep(what, false, removed);

	if (!err)
		err = sweep_controllers(what, extent == SWEEP_ALL, &enabled, removed);
	if (err || extent == SWEEP_RESTS)
		return err;
	sweep_sysctls(extent == SWEEP_ALL, enabled);
	if (enabled || trace_runs())
		return EXIT_OK;
	pin_remove_dir(pin_path(PINS_TRACE, NULL));
	if (extent != SWEEP_ALL && flows_left())
		return EXIT_OK;
	err = sweep_shared(what, removed);
	if (err)
		return err;
	if (pin_remove_dir(pins_root()) == 0)
		report(removed, pins_root());
	return EXIT_OK;
}

static bool is_own(const char *dir, const char *name)
{
	static const char *const top[] = { PINS_TRACE, "default", "ecn", AQM_DIR };

	if (dir)
		return running_is_pin(name);
	for (size_t i = 0; i < sizeof(top) / sizeof(top[0]); i++)
		if (strcmp(name, top[i]) == 0)
			return true;
	for (int i = 0; i < SHARED_MAPS; i++)
		if (strcmp(name, shared_name(i)) == 0)
			return true;
	return controller_find(name);
}

static void collect_foreign(const char *dir, struct json_object *foreign)
{
	DIR *open = opendir(pin_path(dir, NULL));
	struct dirent *entry;

	while (open && (entry = readdir(open)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    !is_own(dir, entry->d_name))
			json_object_array_add(foreign,
					      json_text(dir ? pin_path(dir, entry->d_name)
							    : pin_path(entry->d_name, NULL)));
	if (open)
		closedir(open);
}

struct json_object *sweep_foreign(void)
{
	struct json_object *foreign = json_object_new_array();

	collect_foreign(NULL, foreign);
	for_each_controller (c)
		collect_foreign(c->name, foreign);
	aqm_collect_foreign(foreign);
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
