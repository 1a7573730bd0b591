// SPDX-License-Identifier: GPL-2.0-only
/* The capabilities that this process has: see capabilities.h. */
#include <sys/capability.h>
#include <unistd.h>

#include "util/capabilities.h"
#include "util/text.h"

static const struct {
	cap_value_t capability;
	enum capabilities from; /* this use on */
} needed[] = {
	{ CAP_BPF, CAPABILITIES_READING }, /* maps, programs, pins */
	/* reading kernel structures in a program */
	{ CAP_PERFMON, CAPABILITIES_CHANGING },
	/* programs of networking, the default controller */
	{ CAP_NET_ADMIN, CAPABILITIES_CHANGING },
	/* where somebody who is not root works with root's pins */
	{ CAP_DAC_OVERRIDE, CAPABILITIES_FILES },
	{ CAP_SYS_ADMIN, CAPABILITIES_NAMESPACES },
};

const char *capabilities_missing(enum capabilities use)
{
	static char names[128];
	cap_t own = cap_get_proc();

	*names = '\0';
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		cap_flag_value_t value = CAP_CLEAR;
		char *name;

		if (own)
			cap_get_flag(own, needed[i].capability, CAP_EFFECTIVE, &value);
		if (value == CAP_SET || needed[i].from > use)
			continue;
		name = cap_to_name(needed[i].capability);
		append(names, sizeof(names), ", ", "%s", name ?: "a capability");
		cap_free(name);
	}
	cap_free(own);
	return *names ? names : NULL;
}

const char *capabilities_remedy(void)
{
	return geteuid()
		       ? "run it as root, for example with sudo"
		       : "root lacks it here, as in a container: run it on the host, or let the container have it";
}
