// SPDX-License-Identifier: GPL-2.0-only
/* The devices that have nf_red, for `ccbpf status`: see verbs.h. */
#include <stdlib.h>

#include "cmd/aqm/verbs.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/netns.h"

/* Call `each` for every one that is attached. */
static void each_attached(const char *what,
			  void (*each)(struct json_object *, const struct tchook *),
			  struct json_object *list)
{
	struct tchook *found;
	unsigned int n;

	tchook_open_all(what, &aqm_kind, &found, &n);
	for (unsigned int i = 0; i < n; i++) {
		if (tchook_is_attached(&found[i]))
			each(list, &found[i]);
		attachment_close(&found[i].attachment);
	}
	free(found);
}

static void print_one(struct json_object *unused, const struct tchook *aqm)
{
	(void)unused;
	output_line("queue: %s%s (`ccbpf aqm show`)", tchook_device(aqm),
		    netns_place(aqm->identity.netns));
}

static void add_one(struct json_object *list, const struct tchook *aqm)
{
	json_object_array_add(list, json_text(tchook_device(aqm)));
}

void aqms_print(const char *what)
{
	each_attached(what, print_one, NULL);
}

struct json_object *aqms_json(const char *what)
{
	struct json_object *list = json_object_new_array();

	each_attached(what, add_one, list);
	return list;
}
