// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf aqm show [DEV]: what nf_red sees and does on a device, or on all:
 * {"time_ns": the host's CLOCK_MONOTONIC, "queues": [{...}]}, one document a line
 * with --watch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/aqm/verbs.h"
#include "cmd/verbs.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"

/* Show what is attached of these. */
static int show_these(const char *what, const struct tchook *found, unsigned int n)
{
	struct json_object *list, *doc = verb_envelope(&list);
	unsigned int shown = 0;
	struct aqm_view view;
	int err = EXIT_OK;

	for (unsigned int i = 0; !err && i < n; i++) {
		if (!tchook_is_attached(&found[i])) {
			note(attachment_path(&found[i].attachment, NULL),
			     tchook_state_text(&found[i]),
			     found[i].attachment.state == ATTACHMENT_UNREADABLE
				     ? "`ccbpf clean --all` removes it"
				     : "`ccbpf clean` removes it");
			continue;
		}
		err = verb_look(what, &found[i], &view);
		if (err)
			break;
		if (!output.json && shown++)
			putchar('\n');
		if (output.json)
			json_object_array_add(list, aqm_json(&view));
		else
			aqm_print(&view);
	}
	return output_answer(err, doc);
}

static int by_dir(const void *a, const void *b)
{
	return strcmp(((const struct tchook *)a)->attachment.dir,
		      ((const struct tchook *)b)->attachment.dir);
}

static int show_all(const char *what)
{
	struct tchook *found;
	unsigned int n;
	int err = tchook_open_all(what, &aqm_kind, &found, &n);

	if (n)
		qsort(found, n, sizeof(*found), by_dir);
	if (!err)
		err = show_these(what, found, n);
	if (!err && !n && !output.json)
		output_line("no device has nf_red");
	for (unsigned int i = 0; i < n; i++)
		attachment_close(&found[i].attachment);
	free(found);
	return err;
}

static int show_one(const char *what, const char *name)
{
	struct tchook aqm = { .attachment.hold_fd = -1 };
	int err = verb_open_named(what, name, &aqm);

	if (!err && !tchook_is_attached(&aqm))
		err = FAIL(EXIT_NOTHING, .what = what, .on = name, .why = tchook_state_text(&aqm),
			   .remedy = "`ccbpf clean` removes what is left");
	if (!err)
		err = show_these(what, &aqm, 1);
	attachment_close(&aqm.attachment);
	return err;
}

int verb_show(const struct request *request, const char *what)
{
	static const struct verb_show show = { show_one, show_all };

	return verbs_show(request, what, &show);
}
