// SPDX-License-Identifier: GPL-2.0-only
/* ccbpf aqm attach DEV [OPTION...]: answers with the one that it attached. */
#include "aqm/attach.h"
#include "cmd/aqm/verbs.h"
#include "cmd/verbs.h"
#include "out/errors.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

static int already(const char *what, const char *name, const struct attachment *a)
{
	return FAIL(
		EXIT_NOTHING, .what = what, .on = name,
		.why = text("it has nf_red already (%s %u)", a->by_link ? "link" : "program",
			    a->by_link ? a->link_id : a->held_id),
		.remedy = text(
			"`ccbpf aqm set %s ...` changes it, `ccbpf aqm detach %s` takes it away",
			name, name));
}

/* Make room: what an interrupted ccbpf or another device left is removed. */
static int make_room(const char *what, const char *name, struct tchook *aqm)
{
	if (aqm->attachment.state == ATTACHMENT_ABSENT)
		return EXIT_OK;
	if (tchook_is_attached(aqm))
		return already(what, name, &aqm->attachment);
	if (aqm->attachment.state == ATTACHMENT_UNREADABLE)
		return verb_unreadable(what, aqm);
	note(name, tchook_state_text(aqm), "removed");
	return tchook_remove(what, aqm);
}

static int attach_locked(const struct request *request, const char *what,
			 const struct device *device)
{
	struct ccbpf_aqm_config config;
	struct tchook aqm;
	int err = tchook_open(what, &aqm_kind, device->netns, device->ifindex, &aqm);

	if (!err)
		err = make_room(what, device->name, &aqm);
	attachment_close(&aqm.attachment);
	if (!err)
		err = verb_configure(request, what, device, true, &config);
	if (!err)
		err = aqm_attach(what, device, &config, &aqm);
	if (!err)
		err = verb_report(what, &aqm);
	attachment_close(&aqm.attachment);
	return err;
}

int verb_attach(const struct request *request, const char *what)
{
	struct device device;
	int err = kernel_require_bpf(what, verbs_devices(request));

	if (!err)
		err = device_require(what, request->args[1], &device);
	if (!err)
		err = pins_lock_change(what);
	if (err)
		return err;
	err = attach_locked(request, what, &device);
	pins_unlock();
	return err;
}
