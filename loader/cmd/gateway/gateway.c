// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf gateway attach|show|detach: what other hosts receive through a device of this network namespace
 * is in the background. `show` without a name shows those of all namespaces. One file for each of the
 * verbs.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/gateway/verbs.h"
#include "cmd/verbs.h"
#include "out/errors.h"
#include "sys/device.h"
#include "util/text.h"

const char *gateway_device(const struct gateway *gateway)
{
	const char *name = gateway_identity(gateway)->device;

	return *name ? name : gateway->out.attachment.dir;
}

int gateway_absent(const char *what, const char *name)
{
	return FAIL(EXIT_NOTHING, .what = what, .on = name, .why = "it has no gateway",
		    .remedy = text("`ccbpf gateway attach %s` attaches it", name));
}

int gateway_unreadable(const char *what, const struct gateway *gateway)
{
	bool out = gateway->out.attachment.state == ATTACHMENT_UNREADABLE;

	return FAIL(EXIT_FAILED, .what = what,
		    .on = attachment_path(out ? &gateway->out.attachment : &gateway->in.attachment,
					  NULL),
		    .why = gateway_state_text(gateway), .remedy = "`ccbpf clean --all` removes it");
}

/* One that is not in this namespace any more but was, under this name. */
static bool find_gone(const char *what, const char *name, struct gateway *out)
{
	struct gateway *found;
	unsigned int n;
	bool is = false;

	gateway_open_all(what, &found, &n);
	for (unsigned int i = 0; i < n; i++)
		if (!is && tchook_is_here(&found[i].out) &&
		    gateway_state(&found[i]) == ATTACHMENT_GONE &&
		    !strcmp(gateway_identity(&found[i])->device, name)) {
			*out = found[i];
			is = true;
		} else {
			gateway_close(&found[i]);
		}
	free(found);
	return is;
}

int gateway_open_named(const char *what, const char *name, struct gateway *out)
{
	struct device device;
	int err;

	if (device_find(name, &device) && find_gone(what, name, out))
		return EXIT_OK;
	err = gateway_require_device(what, name, &device);
	if (!err)
		err = gateway_open(what, device.netns, device.ifindex, out);
	if (err)
		return err;
	if (gateway_state(out) == ATTACHMENT_ABSENT)
		err = gateway_absent(what, name);
	else if (gateway_state(out) == ATTACHMENT_UNREADABLE)
		err = gateway_unreadable(what, out);
	if (err)
		gateway_close(out);
	return err;
}

static const struct verb verbs[] = {
	{ "attach", "attach the gateway to", gateway_verb_attach, true, true },
	{ "show", "show the gateway of", gateway_verb_show, false, false },
	{ "detach", "detach the gateway from", gateway_verb_detach, false, true },
};

static int gateway(const struct request *request)
{
	static const struct verbs of = {
		.command = "gateway",
		.all = verbs,
		.n = sizeof(verbs) / sizeof(verbs[0]),
		.expected = "attach, show or detach",
		.options = "only attach takes --host and --remote",
	};

	return verbs_run(request, &of,
			 request->own[GATEWAY_OPTION_HOST] || request->own[GATEWAY_OPTION_REMOTE]);
}

static const struct argp_option options[] = {
	{ "host", OPTION_OWN + GATEWAY_OPTION_HOST, "PREFIXES", 0,
	  "attach: only what these hosts receive: addresses or prefixes, up to 8, with commas between",
	  0 },
	{ "remote", OPTION_OWN + GATEWAY_OPTION_REMOTE, "PREFIXES", 0,
	  "attach: only what comes from these addresses, given in the same way", 0 },
	{ "all", OPTION_ALL, 0, 0, "detach: from all devices", 0 },
	{ "watch", OPTION_WATCH, "SECONDS", 0, "show: repeat every SECONDS until Ctrl-C", 0 },
	{ 0 },
};

const struct command cmd_gateway = {
	.name = "gateway",
	.args = "attach|show|detach [DEV]",
	.text = "Hold back what other hosts receive through a device",
	.more = "For a router, an access point, or a host with containers or guests. DEV is the device towards the senders: downloads "
		"come in there, and in the ACKs that go out there the receive window is lowered to what `ccbpf run --download` "
		"would use. Packets are never dropped or delayed, windows never raised, and what was advertised is never "
		"taken back. Connections that began before, or have no TCP timestamps, are left alone. show without DEV shows all.",
	.options = options,
	.run = gateway,
};
