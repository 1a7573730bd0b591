// SPDX-License-Identifier: GPL-2.0-only
/* Commands whose work is done by a daemon: see daemons.h. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rules/daemons.h"
#include "sys/unit.h"

/* Without these podman is no client: it does the work itself. */
static const char *const podman_options[] = { "--remote", "-r",	       "--url", "--connection",
					      "-c",	  "--context", NULL };
static const char *const podman_variables[] = { "CONTAINER_HOST", "CONTAINER_CONNECTION", NULL };

/* Commands that execute the command behind their own words. */
struct wrapper {
	const char *command;
	const char *valued; /* its short options that take a value */
	unsigned int words; /* that stand before the command */
};

static const struct wrapper wrappers[] = {
	{ "sudo", "ugpCrtTUDRh", 0 }, { "doas", "uC", 0 },    { "env", "uCS", 0 },
	{ "nice", "n", 0 },	      { "ionice", "cn", 0 },  { "chrt", "TPD", 1 },
	{ "taskset", "", 1 },	      { "timeout", "ks", 1 }, { "time", "of", 0 },
	{ "stdbuf", "ioe", 0 },	      { "setsid", "", 0 },    { "nohup", "", 0 },
};

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

/* --- the unit that a command names --------------------------------------------- */

/* The letter of a word of short options that takes what is behind it as its value, or the next word; NULL: none does. */
static const char *valued_letter(const char *option, const char *valued)
{
	return option[1] == '-' ? NULL : strpbrk(option + 1, valued);
}

/* Does the word, an option, take the next one as its value? Long options that do are not known: they are taken for
 * switches, unless they have their value behind a `=`. */
static bool takes_next(const char *option, const char *valued)
{
	const char *letter = valued_letter(option, valued);

	return letter && !letter[1];
}

/* The first word from here on that is no option, nor the value of a short one in `valued`. */
static char *const *next_word(char *const *argv, const char *valued)
{
	for (; *argv && **argv == '-'; argv++) {
		if (!strcmp(*argv, "--"))
			return argv + 1;
		if (takes_next(*argv, valued) && argv[1])
			argv++;
	}
	return argv;
}

/* A unit of these types has no processes: it starts others. */
static bool is_trigger(const char *unit)
{
	static const char *const types[] = { ".timer", ".path", ".target", ".automount",
					     ".device" };
	const char *dot = strrchr(unit, '.');

	for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(dot, types[i]))
			return true;
	return false;
}

/* Does the verb of systemctl or service start something? */
static bool starts(const char *verb)
{
	static const char *const verbs[] = { "start",	    "restart",		 "reload",
					     "try-restart", "reload-or-restart", "isolate",
					     "force-reload" };

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verb, verbs[i]))
			return true;
	return false;
}

/* Options that name another host or a container: there a rule of this host does nothing. */
static bool is_elsewhere(const char *option, const char *valued)
{
	const char *letter = valued_letter(option, valued);

	return is_option(option, "--host") || is_option(option, "--machine") ||
	       (letter && strchr("HM", *letter));
}

/* Their short options that take a value. */
#define SYSTEMCTL_VALUED "tpPnosMH"
#define SYSTEMD_RUN_VALUED "pECuMH"

static bool systemctl_unit(char *const *argv, struct daemon_work *work)
{
	char *const *verb = next_word(argv + 1, SYSTEMCTL_VALUED), *const * unit;

	for (char *const *word = argv + 1; word < verb; word++) {
		if (**word == '-' && is_elsewhere(*word, SYSTEMCTL_VALUED))
			return false;
		work->user |= !strcmp(*word, "--user");
	}
	if (!*verb || !starts(*verb))
		return false;
	unit = next_word(verb + 1, SYSTEMCTL_VALUED);
	work->unit = *unit && !is_trigger(*unit) ? unit_name(*unit, ".service") : NULL;
	return true;
}

static bool service_unit(char *const *argv, struct daemon_work *work)
{
	char *const *name = next_word(argv + 1, "");

	work->unit = *name ? unit_name(*name, ".service") : NULL;
	return *name && name[1] && starts(name[1]);
}

/* -u NAME, --unit NAME, --unit=NAME; without it systemd makes a name of its own. */
static bool systemd_run_unit(char *const *argv, struct daemon_work *work)
{
	static const char option[] = "--unit";
	size_t len = sizeof(option) - 1;
	const char *name = NULL, *type = ".service";

	for (argv++; *argv && **argv == '-' && strcmp(*argv, "--"); argv++) {
		if (is_elsewhere(*argv, SYSTEMD_RUN_VALUED))
			return false;
		work->user |= !strcmp(*argv, "--user");
		if (!strcmp(*argv, "--scope"))
			type = ".scope";
		else if (!strncmp(*argv, option, len) && (*argv)[len] == '=')
			name = *argv + len + 1;
		else if ((!strcmp(*argv, "-u") || !strcmp(*argv, option)) && argv[1])
			name = *++argv;
		else if (takes_next(*argv, SYSTEMD_RUN_VALUED) && argv[1])
			argv++;
	}
	work->unit = name ? unit_name(name, type) : NULL;
	return true;
}

struct daemon_command {
	const char *command; /* the program's name, without its path */
	const char *unit; /* the systemd unit that does the work */
	/* If not NULL: only with one of these options before its first word, or with one of these
	 * variables in the environment. */
	const char *const *only;
	const char *const *variables;
	bool depends; /* on the command's release: some do the work themselves */
	/* The command names the unit: put it into `*work`. Returns whether it starts something here. */
	bool (*names)(char *const *argv, struct daemon_work *work);
};

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
	{ "systemctl",           .names = systemctl_unit },
	{ "systemd-run",         .names = systemd_run_unit },
	{ "service",             .names = service_unit },
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

/* --- which command it is ------------------------------------------------------- */

static const char *without_path(const char *command)
{
	const char *slash = strrchr(command, '/');

	return slash ? slash + 1 : command;
}

static const struct wrapper *wrapper_of(const char *command)
{
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (!strcmp(without_path(command), wrappers[i].command))
			return &wrappers[i];
	return NULL;
}

/* The command behind all wrappers; NULL: there is none. */
static char *const *behind(char *const *word)
{
	const struct wrapper *wrapper;

	while (*word && (wrapper = wrapper_of(*word))) {
		word = next_word(word + 1, wrapper->valued);
		for (unsigned int n = 0; *word && n < wrapper->words; n++)
			word = next_word(word + 1, wrapper->valued);
		while (*word && strchr(*word, '=')) /* variables of sudo and env */
			word++;
	}
	return *word ? word : NULL;
}

bool daemon_of(char *const *argv, struct daemon_work *work)
{
	argv = behind(argv);
	for (size_t i = 0; argv && i < sizeof(table) / sizeof(table[0]); i++) {
		const struct daemon_command *row = &table[i];

		if (strcmp(without_path(argv[0]), row->command) ||
		    (row->only && !has_option(argv, row->only) && !has_variable(row->variables)))
			continue;
		*work = (struct daemon_work){
			.command = argv[0],
			.unit = row->unit,
			.named = row->names,
			.depends = row->depends,
		};
		return !row->names || row->names(argv, work);
	}
	return false;
}
