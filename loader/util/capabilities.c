// SPDX-License-Identifier: GPL-2.0-only
/* The capabilities that this process has: see capabilities.h. */
#include <errno.h>
#include <grp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
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
	{ CAP_SYS_ADMIN, CAPABILITIES_ALL },
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

static bool stays(cap_value_t capability, bool by_process)
{
	return capability == CAP_BPF || capability == CAP_SYS_ADMIN ||
	       (capability == CAP_DAC_OVERRIDE && geteuid()) ||
	       (capability == CAP_SYS_PTRACE && by_process);
}

int capabilities_keep_reading(bool by_process)
{
	static const cap_flag_t sets[] = { CAP_EFFECTIVE, CAP_PERMITTED };
	cap_t own = cap_get_proc();
	int err = own && !cap_clear_flag(own, CAP_INHERITABLE) ? 0 : -errno;

	for (cap_value_t c = 0; !err && c < cap_max_bits(); c++)
		for (size_t i = 0; !stays(c, by_process) && i < sizeof(sets) / sizeof(sets[0]); i++)
			if (cap_set_flag(own, sets[i], 1, &c, CAP_CLEAR))
				err = -errno;
	if (!err && (cap_set_proc(own) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
		err = -errno;
	cap_free(own);
	return err;
}

static bool may(cap_value_t capability)
{
	cap_t own = cap_get_proc();
	cap_flag_value_t value = CAP_CLEAR;

	if (own)
		cap_get_flag(own, capability, CAP_EFFECTIVE, &value);
	cap_free(own);
	return value == CAP_SET;
}

static int become_nobody(void)
{
	const unsigned int nobody = CAPABILITIES_NOBODY;

	if (geteuid() || !may(CAP_SETUID) || !may(CAP_SETGID))
		return 0;
	if (setgroups(0, NULL) || setresgid(nobody, nobody, nobody) ||
	    setresuid(nobody, nobody, nobody))
		return -errno;
	return 0;
}

int capabilities_keep_none(void)
{
	int err = become_nobody();
	cap_t none = cap_init();

	if (!err && (!none || cap_set_proc(none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
		err = -errno;
	cap_free(none);
	return err;
}
