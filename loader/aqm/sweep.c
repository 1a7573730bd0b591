// SPDX-License-Identifier: GPL-2.0-only
/* Removing what is of no use below <root>/aqm: see sweep.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aqm/attach.h"
#include "aqm/hook.h"
#include "aqm/maps.h"
#include "aqm/sweep.h"
#include "out/errors.h"
#include "out/json.h"
#include "sys/pins.h"

int aqm_sweep(const char *what, bool all, struct json_object *removed)
{
	struct aqm *found;
	unsigned int n;
	int err = aqm_open_all(what, &found, &n);

	for (unsigned int i = 0; i < n; i++) {
		bool goes = aqm_is_rest(&found[i]) || (all && found[i].state != AQM_ABSENT);
		int failed = goes ? aqm_remove(what, &found[i]) : EXIT_OK;

		if (goes && !failed && removed)
			json_object_array_add(removed, json_text(pin_path(found[i].dir, NULL)));
		if (!err)
			err = failed;
		aqm_close(&found[i]);
	}
	free(found);
	if (all)
		pin_remove_dir(pin_path(AQM_DIR, NULL));
	else
		rmdir(pin_path(AQM_DIR, NULL)); /* an interrupted attach may leave it */
	return err;
}

static bool is_own_pin(const char *name)
{
	for (size_t i = 0; i < AQM_MAPS; i++)
		if (strcmp(name, aqm_maps[i].pin) == 0)
			return true;
	return !strcmp(name, AQM_PIN_LINK) || !strcmp(name, AQM_PIN_PROGRAM);
}

static void collect(const char *dir, bool top, struct json_object *foreign)
{
	DIR *open = opendir(pin_path(dir, NULL));
	char below[sizeof(((struct aqm *)0)->dir)];
	uint32_t netns, ifindex;
	struct dirent *entry;

	while (open && (entry = readdir(open))) {
		const char *name = entry->d_name;

		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		if (top && aqm_parse_dir(name, &netns, &ifindex)) {
			snprintf(below, sizeof(below), AQM_DIR "/%u_%u", netns, ifindex);
			collect(below, false, foreign);
		} else if (top || !is_own_pin(name)) {
			json_object_array_add(foreign, json_text(pin_path(dir, name)));
		}
	}
	if (open)
		closedir(open);
}

void aqm_collect_foreign(struct json_object *foreign)
{
	collect(AQM_DIR, true, foreign);
}
