// SPDX-License-Identifier: GPL-2.0-only
/* What the verbs of `ccbpf aqm` share: see verbs.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/aqm/verbs.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/pins.h"
#include "util/memory.h"
#include "util/text.h"

int verb_absent(const char *what, const char *name)
{
	return FAIL(EXIT_NOTHING, .what = what, .on = name, .why = "it has no nf_red",
		    .remedy = text("`ccbpf aqm attach %s` attaches it", name));
}

int verb_unreadable(const char *what, const struct tchook *aqm)
{
	return FAIL(EXIT_FAILED, .what = what, .on = attachment_path(&aqm->attachment, NULL),
		    .why = tchook_state_text(aqm), .remedy = "`ccbpf clean --all` removes it");
}

/*
 * One that is not in this namespace any more but was, under this name: so that
 * an error can say more than "no such device".
 */
static bool find_gone(const char *what, const char *name, struct tchook *out)
{
	struct tchook *found;
	unsigned int n;
	bool is = false;

	tchook_open_all(what, &aqm_kind, &found, &n);
	for (unsigned int i = 0; i < n; i++)
		if (!is && tchook_is_here(&found[i]) &&
		    strcmp(found[i].identity.device, name) == 0 &&
		    found[i].attachment.state == ATTACHMENT_GONE) {
			*out = found[i];
			is = true;
		} else {
			attachment_close(&found[i].attachment);
		}
	free(found);
	return is;
}

int verb_open_named(const char *what, const char *name, struct tchook *out)
{
	struct device device;
	int err;

	if (device_find(name, &device) == -ENODEV) {
		if (find_gone(what, name, out))
			return EXIT_OK;
		return tchook_require_device(what, &aqm_kind, name, &device);
	}
	err = device_require(what, name, &device);
	if (!err)
		err = tchook_open(what, &aqm_kind, device.netns, device.ifindex, out);
	if (!err && out->attachment.state == ATTACHMENT_ABSENT)
		err = verb_absent(what, name);
	else if (!err && out->attachment.state == ATTACHMENT_UNREADABLE)
		err = verb_unreadable(what, out);
	return err;
}

static const struct aqm_options *options_of(const struct request *request)
{
	static struct aqm_options options;

	memcpy(options.given, request->own, sizeof(options.given));
	return &options;
}

int verb_configure(const struct request *request, const char *what, const struct device *device,
		   bool fresh, struct ccbpf_aqm_config *config)
{
	const struct aqm_options *options = options_of(request);
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	struct aqm_queue queue = { 0 };
	char with[64]; /* "attach nf_red to v0 with" an option */
	uint32_t leaf;
	int err, unread;

	snprintf(with, sizeof(with), "%s %s with", what, device->name);
	err = aqm_parse_class(with, options, &leaf);
	unread = qdiscs_read(device->ifindex, all);
	if (!err && unread)
		err = fail_errno(what, device->name, unread);
	if (!err && !fresh)
		aqm_follow_device(device, all, config);
	if (!err && (fresh || leaf))
		err = aqm_find_queue(what, device, all, leaf, &queue);
	if (!err)
		err = aqm_configure(with, options, device, &queue, fresh, config);
	free(all);
	return err;
}

int verb_report(const char *what, const struct tchook *aqm)
{
	struct aqm_view view;
	struct json_object *list, *doc;
	int err = verb_look(what, aqm, &view);

	if (err)
		return err;
	if (!output.json) {
		output_line(
			"%s: nf_red %s: %s, limit %u bytes, nf from %s to %s %%, probes above %u bytes, %s",
			view.device, *what == 'a' ? "attached" : "set", view.queue.kind,
			view.config.limit_bytes, aqm_percent(view.config.nf_min),
			aqm_percent(view.config.nf_max), view.config.packet_bytes,
			aqm_weight(&view.config));
		return EXIT_OK;
	}
	doc = verb_envelope(&list);
	json_object_array_add(list, aqm_json(&view));
	output_json(doc);
	return EXIT_OK;
}
