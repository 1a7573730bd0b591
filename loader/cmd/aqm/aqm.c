// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf aqm attach|show|set|detach: the early-marking queue nf_red on a device
 * of this network namespace. `show` without a name shows those of all
 * namespaces. One file for each of the verbs.
 */
#include "cmd/aqm/verbs.h"
#include "cmd/verbs.h"

static bool gives_any(const struct request *request)
{
	for (int i = 0; i < AQM_OPTION_COUNT; i++)
		if (request->own[i])
			return true;
	return false;
}

static const struct verb verbs[] = {
	{ "attach", "attach nf_red to", verb_attach, true, true },
	{ "show", "show nf_red of", verb_show, false, false },
	{ "set", "set nf_red of", verb_set, true, true },
	{ "detach", "detach nf_red from", verb_detach, false, true },
};

static int aqm(const struct request *request)
{
	static const struct verbs of = {
		.command = "aqm",
		.all = verbs,
		.n = sizeof(verbs) / sizeof(verbs[0]),
		.expected = "attach, show, set or detach",
		.options = "only attach and set take options like these",
	};

	return verbs_run(request, &of, gives_any(request));
}

static const struct argp_option options[] = {
#define X(id, name, argument, text) { name, OPTION_OWN + AQM_OPTION_##id, argument, 0, text, 0 },
	AQM_OPTIONS(X)
#undef X
		{ "all", OPTION_ALL, 0, 0, "detach: from all devices", 0 },
	{ "watch", OPTION_WATCH, "SECONDS", 0, "show: repeat every SECONDS until Ctrl-C", 0 },
	{ 0 },
};

_Static_assert(AQM_OPTION_COUNT <= MOST_OWN, "struct request has room");

const struct command cmd_aqm = {
	.name = "aqm",
	.args = "attach|show|set|detach [DEV]",
	.text = "Mark background traffic early at a queue",
	.more = "attach DEV and set DEV take the options; without options attach uses the values of the paper, and set reads DEV's MTU "
		"again. show without DEV shows all. A packet's DSCP decides its class: nf, probe, or standard for all "
		"others. At DEV's egress packets of class nf are marked (ECN) once the average queue exceeds nf-min, and packets of "
		"class probe whenever more than one packet waits. Packets that are not ECN-capable are dropped instead; of TCP "
		"packets only half are dropped. Where standard packets are marked, packets of nf and probe are dropped.",
	.options = options,
	.run = aqm,
};
