// SPDX-License-Identifier: GPL-2.0-only
/* Removing what is of no use any more: see sweep.h. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm.h"
#include "errors.h"
#include "output.h"
#include "pins.h"
#include "running.h"
#include "shared.h"
#include "sweep.h"
#include "sysdefault.h"
#include "sysecn.h"

static void report(struct json_object *removed, const char *path)
{
	if (removed)
		json_object_array_add(removed, json_text(path));
}

/*
 * Remove what interrupted commands left of the controllers. `*enabled`: how
 * many are.
 */
static int sweep_controllers(const char *what, bool unreadable,
			     unsigned int *enabled, struct json_object *removed)
{
	for_each_controller (c) {
		struct running running;
		int err = running_open(what, c, &running);

		if (err)
			return err;
		running_settle(&running);
		*enabled += running.state == RUN_ENABLED;
		if (running_is_rest(&running) ||
		    (unreadable && running.state == RUN_UNREADABLE)) {
			sysdefault_release(c);
			sysecn_release(c);
			report(removed, pin_path(c->name, NULL));
			err = running_remove(what, &running);
		}
		running_close(&running);
		if (err)
			return err;
	}
	return EXIT_OK;
}

/* Whether `flows` has a record. What is no such map holds none. */
static bool flows_left(void)
{
	__u64 key;
	bool left;
	int fd = bpf_obj_get(pin_path(shared_name(SHARED_FLOWS), NULL));

	if (fd < 0)
		return false;
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

int sweep(const char *what, enum sweep_extent extent,
	  struct json_object *removed)
{
	unsigned int enabled = 0;
	int err = aqm_sweep(what, false, removed)
			  ?: sweep_controllers(what, extent == SWEEP_ALL,
					       &enabled, removed);

	if (err || enabled || extent == SWEEP_RESTS || trace_runs())
		return err;
	pin_remove_dir(pin_path(PINS_TRACE, NULL));
	if (extent != SWEEP_ALL && flows_left())
		return EXIT_OK;
	pin_remove(pin_path("default", NULL));
	pin_remove(pin_path("ecn", NULL));
	for (int i = 0; i < SHARED_MAPS; i++)
		if (pin_exists(pin_path(shared_name(i), NULL)))
			report(removed, pin_path(shared_name(i), NULL));
	err = shared_remove();
	if (err)
		return fail_errno(what, pins_root(), err);
	if (pin_remove_dir(pins_root()) == 0)
		report(removed, pins_root());
	return EXIT_OK;
}

static bool is_own(const char *dir, const char *name)
{
	static const char *const inside[] = {
		PIN_LINK,	    PIN_OPS,
		PIN_PARAMS,	    PIN_IDENTITY,
		PIN_PARAMS PIN_NEW, PIN_IDENTITY PIN_NEW
	};
	static const char *const top[] = { PINS_TRACE, "default", "ecn",
					   AQM_DIR };

	for (size_t i = 0; dir && i < sizeof(inside) / sizeof(inside[0]); i++)
		if (strcmp(name, inside[i]) == 0)
			return true;
	for (size_t i = 0; !dir && i < sizeof(top) / sizeof(top[0]); i++)
		if (strcmp(name, top[i]) == 0)
			return true;
	for (int i = 0; !dir && i < SHARED_MAPS; i++)
		if (strcmp(name, shared_name(i)) == 0)
			return true;
	return !dir && controller_find(name);
}

static void collect_foreign(const char *dir, struct json_object *foreign)
{
	DIR *open = opendir(pin_path(dir, NULL));
	struct dirent *entry;

	while (open && (entry = readdir(open)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
		    !is_own(dir, entry->d_name))
			json_object_array_add(
				foreign,
				json_text(
					dir ? pin_path(dir, entry->d_name)
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
		note(json_object_get_string(
			     json_object_array_get_idx(foreign, i)),
		     "not made by ccbpf, left alone",
		     "remove it yourself if nobody needs it");
	json_object_put(foreign);
}
