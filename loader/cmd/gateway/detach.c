// SPDX-License-Identifier: GPL-2.0-only
/* ccbpf gateway detach DEV|--all: the windows are the hosts' own again, from the next ACK on. */
#include <stdlib.h>

#include "cmd/gateway/verbs.h"
#include "cmd/sweep.h"
#include "cmd/verbs.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"

/* Detach one and say so. */
static int detach_one(const char *what, struct gateway *gateway, struct json_object *list)
{
	bool was = gateway_state(gateway) == ATTACHMENT_HELD;
	const char *name = gateway_device(gateway), *why = gateway_state_text(gateway);
	int err = gateway_remove(what, gateway);

	if (err)
		return err;
	json_object_array_add(list, json_text(name));
	if (!output.json && was)
		output_line("%s: the gateway is detached", name);
	else if (!was)
		note(name, why, "what was left is removed");
	return EXIT_OK;
}

static int no_device_has_it(const char *what)
{
	return FAIL(EXIT_NOTHING, .what = what, .on = "any device", .why = "none has a gateway",
		    .remedy = "`ccbpf gateway attach DEV` attaches it");
}

/* Every one that can be; each that cannot is named. */
static int detach_all(const char *what, struct json_object *list)
{
	struct gateway *found;
	unsigned int n, failed = 0;
	int err = gateway_open_all(what, &found, &n);

	for (unsigned int i = 0; i < n; i++) {
		failed += !!(gateway_state(&found[i]) == ATTACHMENT_UNREADABLE
				     ? gateway_unreadable(what, &found[i])
				     : detach_one(what, &found[i], list));
		gateway_close(&found[i]);
	}
	free(found);
	if (!err && failed)
		err = EXIT_FAILED;
	return !err && !n ? no_device_has_it(what) : err;
}

static int detach_locked(const struct request *request, const char *what)
{
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();
	struct gateway gateway;
	int err, failed;

	json_object_object_add(doc, "detached", list);
	if (request->all) {
		err = detach_all(what, list);
	} else {
		err = gateway_open_named(what, request->args[1], &gateway);
		if (!err) {
			err = detach_one(what, &gateway, list);
			gateway_close(&gateway);
		}
	}
	failed = json_object_array_length(list) ? sweep(what, SWEEP_UNUSED, NULL) : EXIT_OK;
	return output_answer_of(err ?: failed, doc, list);
}

/* Nothing at all is pinned. */
static int no_pins(const struct request *request, const char *what)
{
	struct device device;
	int err;

	if (request->all)
		return no_device_has_it(what);
	err = device_require(what, request->args[1], &device);
	return err ?: gateway_absent(what, request->args[1]);
}

int gateway_verb_detach(const struct request *request, const char *what)
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
