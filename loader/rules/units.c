// SPDX-License-Identifier: GPL-2.0-only
/* The programs that units of systemd name: see units.h. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "rules/object.h"
#include "rules/units.h"
#include "rules/windows.h"
#include "sys/attachment.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "sys/shared.h"
#include "util/memory.h"
#include "util/text.h"

#define MAP_UNIT ".rodata.unit"
#define MAP_COUNTS "unit_counts"
#define MAP_CHOSEN "chosen"
#define MAP_RECEIVES "receives"

static const struct map_shape unit_shape = ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_unit));
static const struct map_shape counts_shape =
	ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct ccbpf_choice_counts));
static const struct map_shape chosen_shape = { BPF_MAP_TYPE_SK_STORAGE, sizeof(int),
					       sizeof(struct ccbpf_chosen), 0 };
static const struct map_shape receives_shape = { BPF_MAP_TYPE_SK_STORAGE, sizeof(int), 0, 0 };

const char *units_pin(const char *controller)
{
	return text(UNITS_DIR "/%s", controller);
}

static bool receives(const char *controller)
{
	return !strcmp(controller, CCBPF_RECEIVER);
}

/* The program of ours at a pin, or -errno: -EMEDIUMTYPE where it is something else. */
static int open_program(const char *controller)
{
	int fd = pin_open(pin_path(units_pin(controller), NULL), PIN_KIND_PROGRAM), err;
	struct ccbpf_unit unit;

	if (fd < 0)
		return fd;
	err = map_take_value(sockops_open_map(fd, MAP_UNIT, &unit_shape), &unit);
	if (!err && (unit.abi != CCBPF_RULE_ABI ||
		     strncmp(unit.choice.controller, controller, CCBPF_NAME_LEN)))
		err = -EMEDIUMTYPE;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int load(const char *what, const char *controller, bool restricted, struct bpf_object **obj)
{
	struct ccbpf_unit *initial;
	struct bpf_map *unit;
	int err = object_open(what, "unit", ccbpf_object_unit, ccbpf_object_unit_end, obj);

	if (!err)
		err = object_map(what, *obj, MAP_UNIT, sizeof(*initial), &unit);
	if (err)
		return err;
	initial = object_initial(unit);
	snprintf(initial->choice.controller, CCBPF_NAME_LEN, "%s", controller);
	initial->choice.flags = restricted ? CCBPF_CHOICE_RESTRICTED : 0;
	if (receives(controller))
		initial->choice.flags = CCBPF_CHOICE_DOWNLOAD | CCBPF_CHOICE_KEEP;
	return receives(controller) ? shared_load(what, *obj) : shared_load_without(what, *obj);
}

int units_make(const char *what, const char *controller, bool restricted, bool *did)
{
	const char *path = pin_path(units_pin(controller), NULL);
	struct bpf_object *obj = NULL;
	int fd = open_program(controller), err;

	*did = fd == -ENOENT;
	if (fd >= 0)
		close(fd);
	if (!*did)
		return fd < 0 ? pin_unusable(what, path, fd) : EXIT_OK;
	err = load(what, controller, restricted, &obj);
	if (!err)
		err = pin_make_dir(what, pin_path(UNITS_DIR, NULL));
	if (!err)
		err = pin_make(what, sockops_program(obj), path);
	bpf_object__close(obj);
	rmdir(pin_path(UNITS_DIR, NULL)); /* refused unless empty */
	return err;
}

bool units_receive(void)
{
	int fd = open_program(CCBPF_RECEIVER);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int units_remove(const char *what, const char *controller)
{
	const char *path = pin_path(units_pin(controller), NULL);
	int err = pin_remove(path);

	rmdir(pin_path(UNITS_DIR, NULL)); /* refused unless empty */
	return err ? fail_errno(what, path, err) : EXIT_OK;
}

static bool read_program(const char *controller, struct unit_program *out)
{
	int fd = strlen(controller) < CCBPF_NAME_LEN ? open_program(controller) : -ENOENT;

	if (fd < 0)
		return false;
	*out = (struct unit_program){ 0 };
	strcpy(out->controller, controller);
	if (map_take_value(sockops_open_map(fd, MAP_COUNTS, &counts_shape), &out->counts))
		out->counts = (struct ccbpf_choice_counts){ 0 };
	out->chosen_fd = sockops_open_map(fd, MAP_CHOSEN, &chosen_shape);
	out->receives_fd = sockops_open_map(fd, MAP_RECEIVES, &receives_shape);
	close(fd);
	return true;
}

static int by_name(const void *a, const void *b)
{
	const struct unit_program *x = a, *y = b;

	return strcmp(x->controller, y->controller);
}

unsigned int units_read(struct unit_program **out)
{
	DIR *dir = opendir(pin_path(UNITS_DIR, NULL));
	struct unit_program program;
	struct dirent *entry;
	unsigned int n = 0;

	*out = NULL;
	while (dir && (entry = readdir(dir))) {
		if (!read_program(entry->d_name, &program))
			continue;
		*out = must_grow(*out, (n + 1) * sizeof(**out));
		(*out)[n++] = program;
	}
	if (dir)
		closedir(dir);
	if (n)
		qsort(*out, n, sizeof(**out), by_name);
	return n;
}

void units_free(struct unit_program *units, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (units[i].chosen_fd >= 0)
			close(units[i].chosen_fd);
		if (units[i].receives_fd >= 0)
			close(units[i].receives_fd);
	}
	free(units);
}

/* Those that it holds: units go on with it, but these connections without. */
static void open_windows(const char *controller)
{
	int fd = receives(controller) ? open_program(controller) : -1;
	struct windows windows;

	if (fd < 0)
		return;
	windows = windows_of(fd, false);
	close(fd);
	windows_open(&windows, NULL, 0);
	windows_close(&windows);
}

int units_sweep(const char *what, bool all, struct json_object *removed)
{
	struct unit_program *units;
	unsigned int n = all ? units_read(&units) : 0;
	int err, first = EXIT_OK;

	for (unsigned int i = 0; i < n; i++) {
		open_windows(units[i].controller);
		err = units_remove(what, units[i].controller);
		if (!err && removed)
			json_object_array_add(
				removed, json_text(pin_path(units_pin(units[i].controller), NULL)));
		if (!first)
			first = err;
	}
	if (all)
		units_free(units, n);
	rmdir(pin_path(UNITS_DIR, NULL)); /* refused unless empty */
	return first;
}

static bool is_ours(void *data, const char *name)
{
	int fd = strlen(name) < CCBPF_NAME_LEN ? open_program(name) : -ENOENT;

	(void)data;
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void units_collect_foreign(struct json_object *foreign)
{
	foreign_in(UNITS_DIR, is_ours, NULL, foreign);
}

struct json_object *units_json(void)
{
	struct json_object *list = json_object_new_array();
	struct unit_program *units;
	unsigned int n = units_read(&units);

	for (unsigned int i = 0; i < n; i++) {
		const struct ccbpf_choice_counts *c = &units[i].counts;
		struct json_object *doc = json_object_new_object(),
				   *counts = json_object_new_object();

		add_text(doc, "controller", units[i].controller);
		add_text(doc, "program", pin_path(units_pin(units[i].controller), NULL));
#define X(name, text) add_number(counts, #name, c->name);
		CCBPF_CHOICE_COUNTS(X)
#undef X
		json_object_object_add(doc, "counts", counts);
		json_object_array_add(list, doc);
	}
	units_free(units, n);
	return list;
}

void units_print(void)
{
	struct unit_program *units;
	unsigned int n = units_read(&units);

	for (unsigned int i = 0; i < n; i++)
		if (receives(units[i].controller))
			output_line(
				"systemd's units with %s: %llu downloads, %llu connections without TCP timestamps",
				units[i].controller, (unsigned long long)units[i].counts.receivers,
				(unsigned long long)units[i].counts.unstamped);
		else
			output_line(
				"systemd's units with %s: %llu connections, %llu kept another, %llu refused",
				units[i].controller, (unsigned long long)units[i].counts.set,
				(unsigned long long)units[i].counts.kept,
				(unsigned long long)units[i].counts.refused);
	units_free(units, n);
}
