/* SPDX-License-Identifier: GPL-2.0-only */
/* ccbpf gateway: its verbs, one file each, and what they share. */
#ifndef CCBPF_GATEWAY_VERBS_H
#define CCBPF_GATEWAY_VERBS_H

#include "commands.h"
#include "gateway/gateway.h"

enum gateway_option {
	GATEWAY_OPTION_HOST,
	GATEWAY_OPTION_REMOTE,
};

/* What each does. `what`: how errors name it. Return an exit code. */
int gateway_verb_attach(const struct request *request, const char *what);
int gateway_verb_show(const struct request *request, const char *what);
int gateway_verb_detach(const struct request *request, const char *what);

/* Open the one of a device by its name; the device may be gone. Returns EXIT_OK or the exit code. */
int gateway_open_named(const char *what, const char *name, struct gateway *out);

/* Say that the device has none, or one that is of no use. Return the exit code. */
int gateway_absent(const char *what, const char *name);
int gateway_unreadable(const char *what, const struct gateway *gateway);

/* The name of its device, or what is pinned where that is not known. */
const char *gateway_device(const struct gateway *gateway);

/* All that there is to say of these, as text or as the document of `show`, of those that are attached. Returns EXIT_OK or the exit code. */
int gateway_show(const char *what, const struct gateway *found, unsigned int n);

/* For `ccbpf status`: a line for each that is attached, or an array of their devices. */
void gateways_print(void);
struct json_object *gateways_json(void);

#endif
