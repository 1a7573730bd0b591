// SPDX-License-Identifier: GPL-2.0-only
/* ccbpf aqm detach DEV|--all */
#include <stdlib.h>

#include "aqm/attach.h"
#include "cmd/aqm/verbs.h"
#include "cmd/verbs.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"

/* Detach one and say so. */
static int detach_one(const char *what, struct tchook *aqm, struct json_object *list)
{
	const char *name = aqm->identity.device;
	bool was = tchook_is_attached(aqm);
	const char *why = tchook_state_text(aqm);
	int err = tchook_remove(what, aqm);

	if (err)
		return err;
	json_object_array_add(list, json_text(*name ? name : aqm->attachment.dir));
	if (!output.json && was)
		output_line("%s: nf_red detached", name);
	else if (!was)
		note(*name ? name : aqm->attachment.dir, why, "what was left is removed");
	return EXIT_OK;
}

static int no_device_has_it(const char *what)
{
	return FAIL(EXIT_NOTHING, .what = what, .on = "any device", .why = "none has nf_red",
		    .remedy = "`ccbpf aqm attach DEV` attaches it");
}

/* Every one that can be; each that cannot is named. */
static int detach_all(const char *what, struct json_object *list)
{
	struct tchook *found;
	unsigned int n, failed = 0;
	int err = tchook_open_all(what, &aqm_kind, &found, &n);

	for (unsigned int i = 0; i < n; i++) {
		failed += !!(found[i].attachment.state == ATTACHMENT_UNREADABLE
				     ? verb_unreadable(what, &found[i])
				     : detach_one(what, &found[i], list));
		attachment_close(&found[i].attachment);
	}
	free(found);
	if (!err && failed)
		err = EXIT_FAILED;
	return !err && !n ? no_device_has_it(what) : err;
}

static int detach_locked(const struct request *request, const char *what)
{
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();
	struct tchook aqm = { .attachment.hold_fd = -1 };
	int err;

	json_object_object_add(doc, "detached", list);
	if (request->all) {
		err = detach_all(what, list);
	} else {
		err = verb_open_named(what, request->args[1], &aqm);
		if (!err)
			err = detach_one(what, &aqm, list);
		attachment_close(&aqm.attachment);
	}
	return output_answer_of(err, doc, list);
}

/* Nothing at all is pinned. */
static int no_pins(const struct request *request, const char *what)
{
	struct device device;
	int err;

	if (request->all)
		return no_device_has_it(what);
	err = device_require(what, request->args[1], &device);
	if (!err)
		err = verb_absent(what, request->args[1]);
	return err;
}

int verb_detach(const struct request *request, const char *what)
{
	int err = kernel_require_changing(what, verbs_devices(request));

	if (!err && !pin_exists(pins_root()))
		err = no_pins(request, what);
	if (!err)
		err = pins_lock_change(what);
	if (err)
		return err;
	err = detach_locked(request, what);
	pins_unlock();
	return err;
}
