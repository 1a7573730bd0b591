// SPDX-License-Identifier: GPL-2.0-only
/* ccbpf gateway attach DEV [--host PREFIXES] [--remote PREFIXES]: answers with the one that it attached. */
#include <string.h>

#include "cmd/gateway/verbs.h"
#include "cmd/sweep.h"
#include "cmd/verbs.h"
#include "out/errors.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "sys/prefix.h"
#include "util/text.h"

/* A list of prefixes with commas between. Returns EXIT_OK or EXIT_USAGE. */
static int parse_prefixes(const char *what, const char *option, const char *given,
			  struct ccbpf_prefix *to, uint32_t *n)
{
	size_t length;
	int err = EXIT_OK;

	for (const char *at = given; !err && at; at = at[length] ? at + length + 1 : NULL) {
		length = strcspn(at, ",");
		if (*n == CCBPF_GATEWAY_PREFIXES)
			return FAIL(EXIT_USAGE, .what = what, .on = text("%s %s", option, given),
				    .why = text("these are more than %d", CCBPF_GATEWAY_PREFIXES),
				    .remedy = "give larger prefixes");
		err = prefix_parse(what, option, text("%.*s", (int)length, at), &to[*n]);
		++*n;
	}
	return err;
}

static int parse(const struct request *request, const char *what,
		 struct ccbpf_gateway_config *config)
{
	int err = parse_prefixes(what, "--host", request->own[GATEWAY_OPTION_HOST], config->hosts,
				 &config->n_hosts);

	return err
		       ?: parse_prefixes(what, "--remote", request->own[GATEWAY_OPTION_REMOTE],
					 config->remotes, &config->n_remotes);
}

/* Make room: what an interrupted ccbpf or another device left is removed. */
static int make_room(const char *what, const char *name, struct gateway *gateway)
{
	int err;

	switch (gateway_state(gateway)) {
	case ATTACHMENT_ABSENT:
		return EXIT_OK;
	case ATTACHMENT_HELD:
		return FAIL(EXIT_NOTHING, .what = what, .on = name,
			    .why = "it has the gateway already",
			    .remedy = text("`ccbpf gateway detach %s` takes it away", name));
	case ATTACHMENT_UNREADABLE:
		return gateway_unreadable(what, gateway);
	default:
		note(name, gateway_state_text(gateway), "removed");
		err = gateway_remove(what, gateway);
		return err ?: sweep(what, SWEEP_RESTS, NULL); /* its records */
	}
}

static int attach_locked(const char *what, const struct device *device,
			 const struct ccbpf_gateway_config *config)
{
	struct gateway gateway;
	int err = sweep(what, SWEEP_RESTS,
			NULL); /* records of a gateway whose id would be used again */

	if (!err)
		err = gateway_open(what, device->netns, device->ifindex, &gateway);
	if (err)
		return err;
	err = make_room(what, device->name, &gateway);
	gateway_close(&gateway);
	if (err)
		return err;
	err = gateway_attach(what, device, config, &gateway);
	if (err)
		sweep(what, SWEEP_UNUSED, NULL); /* a shared map that it has pinned */
	if (!err && output.json)
		err = gateway_show(what, &gateway, 1);
	else if (!err)
		output_line(
			"%s: the gateway is attached; connections that begin from now on are in the background",
			device->name);
	gateway_close(&gateway);
	return err;
}

int gateway_verb_attach(const struct request *request, const char *what)
{
	struct ccbpf_gateway_config config = { 0 };
	struct device device;
	int err = parse(request, what, &config);

	if (!err)
		err = kernel_require_bpf(what, verbs_devices(request));
	if (!err)
		err = device_require(what, request->args[1], &device);
	if (!err)
		err = pins_lock_change(what);
	if (err)
		return err;
	err = attach_locked(what, &device, &config);
	pins_unlock();
	return err;
}
