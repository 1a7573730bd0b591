// SPDX-License-Identifier: GPL-2.0-only
/* ccbpf aqm set DEV [OPTION...]: answers with the one that it changed. */
#include "cmd/aqm/verbs.h"
#include "cmd/verbs.h"
#include "out/errors.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

static int set_locked(const struct request *request, const char *what, const struct device *device)
{
	struct ccbpf_aqm_config config;
	struct tchook aqm = { .attachment.hold_fd = -1 };
	int err = verb_open_named(what, device->name, &aqm);

	if (!err && !tchook_is_attached(&aqm))
		err = FAIL(EXIT_NOTHING, .what = what, .on = device->name,
			   .why = tchook_state_text(&aqm),
			   .remedy = text("`ccbpf aqm attach %s` attaches it anew", device->name));
	if (!err)
		err = aqm_read_config(what, &aqm, &config);
	if (!err)
		err = verb_configure(request, what, device, false, &config);
	if (!err)
		err = aqm_write_config(what, &aqm, &config);
	if (!err)
		err = verb_report(what, &aqm);
	attachment_close(&aqm.attachment);
	return err;
}

int verb_set(const struct request *request, const char *what)
{
	struct device device;
	int err = kernel_require_reading(what, verbs_devices(request));

	if (!err)
		err = device_require(what, request->args[1], &device);
	if (!err && !pin_exists(pins_root()))
		err = verb_absent(what, request->args[1]);
	if (!err)
		err = pins_lock_change(what);
	if (err)
		return err;
	err = set_locked(request, what, &device);
	pins_unlock();
	return err;
}
