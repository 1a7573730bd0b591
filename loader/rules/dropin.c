// SPDX-License-Identifier: GPL-2.0-only
/* Drop-in files of systemd: see dropin.h. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "out/errors.h"
#include "rules/dropin.h"
#include "rules/units.h"
#include "sys/pins.h"
#include "sys/unit.h"
#include "util/file.h"
#include "util/text.h"

#define UNITS_PATH "/etc/systemd/system"
#define FILE_NAME "50-ccbpf.conf"
#define MARK "# Written by `ccbpf systemd" /* the first words of each */
#define BOOT_UNIT "ccbpf-units.service" /* what pins the programs at boot */
#define KEY "BPFProgram=sock_ops:"
#define LONGEST 4096 /* bytes of a file of ours */
#define PATH_BYTES                   \
	"abcdefghijklmnopqrstuvwxyz" \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_-"

static const struct {
	const char *ending, *section;
} sorts[] = {
	{ ".service", "Service" },
	{ ".slice", "Slice" },
	{ ".socket", "Socket" },
	{ ".scope", "Scope" },
};

static int wrong(const char *what, const char *given, const char *why, const char *remedy)
{
	return FAIL(EXIT_USAGE, .what = what, .on = text("%.300s", given), .why = why,
		    .remedy = remedy);
}

/* These contain what pins the programs, so they cannot wait for it. */
static bool is_too_early(const char *name)
{
	static const char *const names[] = { "-.slice", "system.slice", "init.scope", BOOT_UNIT };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Of a sort that systemd knows and that has no processes: unit_name() would complete it. */
static bool has_no_processes(const char *name)
{
	static const char *const endings[] = { ".timer", ".target", ".path", ".device",
					       ".automount" };
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < sizeof(endings) / sizeof(endings[0]); i++)
		if (!strcmp(dot, endings[i]))
			return true;
	return false;
}

int unit_parse(const char *what, const char *given, struct unit *out)
{
	const char *name = unit_name(given, ".service");

	*out = (struct unit){ .name = name };
	if (!name || *name == '.' || *name == '@')
		return wrong(what, given, "it is not a unit's name",
			     "give it as `systemctl status` shows it, for example backup.service");
	for (size_t i = 0; !has_no_processes(given) && i < sizeof(sorts) / sizeof(sorts[0]); i++)
		if (!strcmp(strrchr(name, '.'), sorts[i].ending))
			out->section = sorts[i].section;
	if (!out->section)
		return wrong(what, given, "units of this sort have no connections of their own",
			     "name a service, slice, socket or scope");
	if (is_too_early(name))
		return wrong(
			what, given,
			"the unit that pins the program at boot (" BOOT_UNIT ") runs in it",
			"name a slice of its own; for all connections `ccbpf enable NAME --default`");
	return EXIT_OK;
}

static const char *directory(const struct unit *unit)
{
	return text(UNITS_PATH "/%s.d", unit->name);
}

const char *dropin_path(const struct unit *unit)
{
	return text("%s/" FILE_NAME, directory(unit));
}

/* As systemd sees the pin: without the prefix of a process that hides it. */
static const char *program_path(const char *controller)
{
	return text("%s/%s", pins_named_root(), units_pin(controller));
}

/* The line of the file that names a program; NULL: none. */
static const char *program_line(const char *controller)
{
	return controller ? text(KEY "%s\n", program_path(controller)) : "";
}

int dropin_words(const char *what, const struct unit *unit, const char *controller, bool download,
		 const char **words)
{
	const char *path = program_path(controller ?: CCBPF_RECEIVER);
	const char *given = controller ? text(" %s", controller) : "";

	if (*path != '/' || strspn(path, PATH_BYTES) != strlen(path))
		return FAIL(
			EXIT_USAGE, .what = what, .on = path, .why = "a unit's file cannot name it",
			.remedy =
				"let CCBPF_PIN_ROOT be an absolute path of letters, digits, - and _");
	*words = text(MARK " %s%s%s`; `ccbpf systemd %s --remove` removes it.\n"
			   "[Unit]\n"
			   "After=" BOOT_UNIT "\n"
			   "Wants=" BOOT_UNIT "\n"
			   "\n"
			   "[%s]\n%s%s",
		      unit->name, given,
		      !download	   ? ""
		      : controller ? " --upload --download"
				   : " --download",
		      unit->name, unit->section, program_line(controller),
		      program_line(download ? CCBPF_RECEIVER : NULL));
	return EXIT_OK;
}

/* The beginning of a file. Returns 0 or -errno. */
static int read_file(const char *path, char content[LONGEST])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t length = fd < 0 ? -1 : read(fd, content, LONGEST - 1);
	int err = length < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	content[err ? 0 : length] = '\0';
	return err;
}

/* Its content if it is of ccbpf, "" where there is none. Returns EXIT_OK or the exit code. */
static int read_own(const char *what, const struct unit *unit, char content[LONGEST])
{
	const char *path = dropin_path(unit);
	int err = read_file(path, content);

	if (err == -ENOENT)
		return EXIT_OK;
	if (err)
		return fail_errno(what, path, err);
	if (!strncmp(content, MARK, strlen(MARK)))
		return EXIT_OK;
	return FAIL(EXIT_FAILED, .what = what, .on = path, .why = "ccbpf has not written this file",
		    .remedy = "move it away");
}

/* What a ccbpf that was killed has left: replace_file() writes beside, under a hidden name. */
static void remove_drafts(const struct unit *unit)
{
	glob_t files;

	if (glob(text("%s/." FILE_NAME ".*", directory(unit)), GLOB_NOESCAPE, NULL, &files))
		return;
	for (size_t i = 0; i < files.gl_pathc; i++)
		unlink(files.gl_pathv[i]);
	globfree(&files);
}

int dropin_write(const char *what, const struct unit *unit, const char *words, bool *did)
{
	const char *path = dropin_path(unit);
	char before[LONGEST];
	int err = read_own(what, unit, before);

	*did = !err && strcmp(before, words);
	if (!*did)
		return err;
	if (mkdir(directory(unit), 0755) && errno != EEXIST)
		return fail_errno(what, directory(unit), errno);
	remove_drafts(unit);
	err = replace_file(path, words, strlen(words));
	if (!err)
		return EXIT_OK;
	rmdir(directory(unit)); /* refused unless empty */
	return fail_errno(what, path, err);
}

int dropin_remove(const char *what, const struct unit *unit)
{
	const char *path = dropin_path(unit);
	char content[LONGEST];
	int err = read_own(what, unit, content);

	if (err)
		return err;
	if (!*content)
		return FAIL(EXIT_NOTHING, .what = what, .on = path, .why = "there is no such file",
			    .remedy = NULL);
	remove_drafts(unit);
	if (unlink(path))
		return fail_errno(what, path, errno);
	rmdir(directory(unit)); /* refused unless empty */
	return EXIT_OK;
}

bool dropin_names(const char *controller)
{
	const char *line = text("\n%s", program_line(controller));
	char content[LONGEST];
	bool found = false;
	glob_t files;

	if (glob(UNITS_PATH "/*.d/" FILE_NAME, 0, NULL, &files))
		return false;
	for (size_t i = 0; !found && i < files.gl_pathc; i++)
		found = !read_file(files.gl_pathv[i], content) &&
			!strncmp(content, MARK, strlen(MARK)) && strstr(content, line);
	globfree(&files);
	return found;
}
