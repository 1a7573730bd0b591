/* SPDX-License-Identifier: GPL-2.0-only */
/* ccbpf aqm: its verbs, one file each, and what they share. */
#ifndef CCBPF_AQM_VERBS_H
#define CCBPF_AQM_VERBS_H

#include "aqm/aqm.h"
#include "aqm/text.h"
#include "commands.h"
#include "sys/device.h"

/* What each does. `what`: how errors name it. Return an exit code. */
int verb_attach(const struct request *request, const char *what);
int verb_show(const struct request *request, const char *what);
int verb_set(const struct request *request, const char *what);
int verb_detach(const struct request *request, const char *what);

/*
 * Open the one of a device by its name; the device may be gone. Returns EXIT_OK or the
 * exit code.
 */
int verb_open_named(const char *what, const char *name, struct tchook *out);

/* Say that the device has none, or one that is of no use. Return the exit code. */
int verb_absent(const char *what, const char *name);
int verb_unreadable(const char *what, const struct tchook *aqm);

/* Everything about one. Returns EXIT_OK or the exit code. */
int verb_look(const char *what, const struct tchook *aqm, struct aqm_view *view);

/* The document of `show`; `*list` gets the array in it. */
struct json_object *verb_envelope(struct json_object **list);

/*
 * For attach and set: make the device, its queue and the options into a configuration,
 * and say what is so now. Return EXIT_OK or the exit code.
 */
int verb_configure(const struct request *request, const char *what, const struct device *device,
		   bool fresh, struct ccbpf_aqm_config *config);
int verb_report(const char *what, const struct tchook *aqm);

/* For `ccbpf status`: a line for each that is attached, or an array of their devices. */
void aqms_print(const char *what);
struct json_object *aqms_json(const char *what);

#endif
