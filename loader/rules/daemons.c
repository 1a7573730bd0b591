// SPDX-License-Identifier: GPL-2.0-only
/* Commands whose work is done by a daemon: see daemons.h. */
#include <stddef.h>
#include <string.h>

#include "rules/daemons.h"

/* clang-format off */
static const struct daemon_command table[] = {
	{ "docker",              "docker.service",                NULL },
	{ "docker-compose",      "docker.service",                NULL },
	{ "podman",              "podman.service",                "--remote" },
	{ "podman-remote",       "podman.service",                NULL },
	{ "ctr",                 "containerd.service",            NULL },
	{ "nerdctl",             "containerd.service",            NULL },
	{ "crictl",              "containerd.service",            NULL },
	{ "rpm-ostree",          "rpm-ostreed.service",           NULL },
	{ "systemctl",           NULL,                            NULL },
	{ "systemd-run",         NULL,                            NULL },
	{ "service",             NULL,                            NULL },
	{ "snap",                "snapd.service",                 NULL },
	{ "flatpak",             "flatpak-system-helper.service", NULL },
	{ "pkcon",               "packagekit.service",            NULL },
	{ "fwupdmgr",            "fwupd.service",                 NULL },
	{ "machinectl",          "systemd-importd.service",       NULL },
	{ "virsh",               "libvirtd.service",              NULL },
	{ "lxc",                 "snap.lxd.daemon.service",       NULL },
	{ "incus",               "incus.service",                 NULL },
	{ "transmission-remote", "transmission-daemon.service",   NULL },
	{ "deluge-console",      "deluged.service",               NULL },
	{ "at",                  "atd.service",                   NULL },
	{ "batch",               "atd.service",                   NULL },
};
/* clang-format on */

static bool has_word(char *const *argv, const char *word)
{
	for (; *argv; argv++)
		if (!strcmp(*argv, word))
			return true;
	return false;
}

const struct daemon_command *daemon_of(char *const *argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *name = slash ? slash + 1 : argv[0];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct daemon_command *row = &table[i];

		if (!strcmp(name, row->command) && (!row->only || has_word(argv, row->only)))
			return row;
	}
	return NULL;
}
