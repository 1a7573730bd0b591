// SPDX-License-Identifier: GPL-2.0-only
/* Commands whose work is done by a daemon: see daemons.h. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rules/daemons.h"

/* Without these podman is no client: it does the work itself. */
static const char *const podman_options[] = { "--remote", "-r",	       "--url", "--connection",
					      "-c",	  "--context", NULL };
static const char *const podman_variables[] = { "CONTAINER_HOST", "CONTAINER_CONNECTION", NULL };

/* clang-format off */
static const struct daemon_command table[] = {
	{ "docker",              .unit = "docker.service" },
	{ "docker-compose",      .unit = "docker.service" },
	{ "podman",              .unit = "podman.service", .only = podman_options, .variables = podman_variables },
	{ "podman-remote",       .unit = "podman.service" },
	{ "ctr",                 .unit = "containerd.service", .depends = true },
	{ "nerdctl",             .unit = "containerd.service", .depends = true },
	{ "crictl",              .unit = "containerd.service" },
	{ "rpm-ostree",          .unit = "rpm-ostreed.service" },
	{ "systemctl",           .unit = NULL },
	{ "systemd-run",         .unit = NULL },
	{ "service",             .unit = NULL },
	{ "snap",                .unit = "snapd.service" },
	{ "flatpak",             .unit = "flatpak-system-helper.service" },
	{ "pkcon",               .unit = "packagekit.service" },
	{ "fwupdmgr",            .unit = "fwupd.service" },
	{ "machinectl",          .unit = "systemd-importd.service" },
	{ "virsh",               .unit = "libvirtd.service" },
	{ "lxc",                 .unit = "snap.lxd.daemon.service" },
	{ "incus",               .unit = "incus.service" },
	{ "transmission-remote", .unit = "transmission-daemon.service" },
	{ "deluge-console",      .unit = "deluged.service" },
	{ "at",                  .unit = "atd.service" },
	{ "batch",               .unit = "atd.service" },
};
/* clang-format on */

/* Is it this option, with or without a value? `--remote=false` is not. */
static bool is_option(const char *word, const char *option)
{
	size_t len = strlen(option);

	return !strncmp(word, option, len) &&
	       (!word[len] || (word[len] == '=' && strcmp(word + len, "=false")));
}

static bool is_among(const char *word, const char *const *options)
{
	for (; *options; options++)
		if (is_option(word, *options))
			return true;
	return false;
}

/* Is one of the options before the command's first argument? The word behind another option may be
 * its value, as podman has it. */
static bool has_option(char *const *argv, const char *const *options)
{
	while (*++argv && **argv == '-') {
		if (is_among(*argv, options))
			return true;
		if (!strchr(*argv, '=') && argv[1] && *argv[1] != '-')
			argv++;
	}
	return false;
}

static bool has_variable(const char *const *variables)
{
	for (; variables && *variables; variables++)
		if (getenv(*variables))
			return true;
	return false;
}

const struct daemon_command *daemon_of(char *const *argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *name = slash ? slash + 1 : argv[0];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct daemon_command *row = &table[i];

		if (!strcmp(name, row->command) &&
		    (!row->only || has_option(argv, row->only) || has_variable(row->variables)))
			return row;
	}
	return NULL;
}
