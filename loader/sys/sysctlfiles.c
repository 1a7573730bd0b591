// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which file gives a sysctl its value at boot. The later one wins:
 *
 *   /proc/cmdline    the kernel's parameters sysctl.NAME=VALUE
 *   sysctl.d         the files of all directories together, in the order of their names; of two
 *                    with the same name only the one in the first directory is read (sysctl.d(5))
 *   /etc/sysctl.conf `sysctl --system` reads it after them (sysctl(8))
 *   tuned            the active profiles, in their order, each after those that it includes
 *   once more        those of /run/sysctl.d, /etc/sysctl.d and /etc/sysctl.conf: tuned applies them
 *                    after its profiles, unless tuned-main.conf has reapply_sysctl = 0
 */
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/sysctlfiles.h"
#include "util/file.h"
#include "util/text.h"

#define LINE_MOST 1024 /* bytes; what a line has beyond them is read as another one */
#define BLANK " \t\r\n"
#define PARAMETERS_MOST 4096 /* bytes: COMMAND_LINE_SIZE of x86 and arm64 is 2048 */
#define PROFILES_MOST 64 /* that are read */

static const char *const directories[] = { "/etc/sysctl.d", "/run/sysctl.d",
					   "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d",
					   "/lib/sysctl.d" };
#define N_DIRECTORIES (sizeof(directories) / sizeof(directories[0]))

/* Those that tuned applies again; of two files with the same name it reads that in /run. */
static const char *const reapplied[] = { "/run/sysctl.d", "/etc/sysctl.d" };
#define N_REAPPLIED (sizeof(reapplied) / sizeof(reapplied[0]))

static const char *const profiles[] = { "/etc/tuned/profiles/%s/tuned.conf",
					"/etc/tuned/%s/tuned.conf",
					"/usr/lib/tuned/profiles/%s/tuned.conf",
					"/usr/lib/tuned/%s/tuned.conf" };
#define N_PROFILES (sizeof(profiles) / sizeof(profiles[0]))

/* Without the blanks around it. */
static char *trimmed(char *words)
{
	char *begin = words + strspn(words, BLANK), *end = begin + strlen(begin);

	while (end > begin && strchr(BLANK, end[-1]))
		*--end = '\0';
	return begin;
}

/* Is it the name of the sysctl? Files write it with dots or with slashes. */
static bool is_name(const char *given, const char *name)
{
	for (; *given && *name; given++, name++)
		if (*given != *name && !(*given == '/' && *name == '.'))
			return false;
	return !*given && !*name;
}

/* The value that a line sets, or NULL. A dash before the name means: also if that fails. */
static const char *value_of(char *line, const char *name)
{
	char *key = trimmed(line), *equals = strchr(key, '=');

	if (!equals)
		return NULL;
	*equals = '\0';
	return is_name(trimmed(key + (*key == '-')), name) ? trimmed(equals + 1) : NULL;
}

/* What it sets last. Files that are not regular ones, as a FIFO that nobody writes, set nothing. */
static bool file_sets(const char *path, const char *name, char value[SYSCTLFILES_VALUE])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char line[LINE_MOST];
	bool sets = false;
	struct stat st;
	FILE *file;

	if (fd < 0)
		return false;
	file = fstat(fd, &st) || !S_ISREG(st.st_mode) ? NULL : fdopen(fd, "r");
	if (!file) {
		close(fd);
		return false;
	}
	while (fgets(line, sizeof(line), file)) {
		const char *found = value_of(line, name);

		if (found)
			snprintf(value, SYSCTLFILES_VALUE, "%s", found);
		sets |= found != NULL;
	}
	fclose(file);
	return sets;
}

/* Does one of the first `n` directories have a file of that name? */
static bool is_hidden(const char *file, const char *const *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!faccessat(AT_FDCWD, text("%s/%s", in[i], file), F_OK, AT_SYMLINK_NOFOLLOW))
			return true;
	return false;
}

/*
 * The last one in the directory in[i], if its name comes after that of `last`; else `last`. The
 * directories before it hide its files.
 */
static const char *last_in(const char *const *in, size_t i, const char *name, const char *last,
			   char value[SYSCTLFILES_VALUE])
{
	size_t length = strlen(in[i]) + 1;
	glob_t files;

	if (glob(text("%s/*.conf", in[i]), 0, NULL, &files))
		return last;
	for (size_t k = 0; k < files.gl_pathc; k++) {
		const char *path = files.gl_pathv[k], *file = path + length;

		if ((last && strcmp(file, strrchr(last, '/') + 1) <= 0) || is_hidden(file, in, i) ||
		    !file_sets(path, name, value))
			continue;
		last = text("%s", path);
	}
	globfree(&files);
	return last;
}

/* The last file of these directories that sets it; after them all comes /etc/sysctl.conf. */
static const char *last_of(const char *const *in, size_t n, const char *name,
			   char value[SYSCTLFILES_VALUE])
{
	const char *last = NULL;

	for (size_t i = 0; i < n; i++)
		last = last_in(in, i, name, last, value);
	if (file_sets("/etc/sysctl.conf", name, value))
		last = "/etc/sysctl.conf";
	return last;
}

/* The files of profiles that were read. */
struct seen {
	const char *path[PROFILES_MOST]; /* texts */
	unsigned int n;
};

static bool was_seen(const struct seen *seen, const char *path)
{
	for (unsigned int i = 0; i < seen->n; i++)
		if (!strcmp(seen->path[i], path))
			return true;
	return false;
}

/*
 * The file of a profile of tuned, a text(), or NULL. One that was read already is passed over, as tuned does: so a
 * profile of /etc includes the one of its own name in /usr.
 */
static const char *profile_path(const char *profile, struct seen *seen)
{
	for (size_t i = 0; i < N_PROFILES && seen->n < PROFILES_MOST; i++) {
		char path[512];

		snprintf(path, sizeof(path), profiles[i], profile);
		if (was_seen(seen, path) || access(path, F_OK))
			continue;
		return seen->path[seen->n++] = text("%s", path);
	}
	return NULL;
}

/* The last one that sets it: these profiles, and before each those that it includes. */
static const char *last_profile(char *names, struct seen *seen, const char *name,
				char value[SYSCTLFILES_VALUE])
{
	char includes[SYSCTLFILES_VALUE], *profile;
	const char *found = NULL, *path;

	while ((profile = strsep(&names, BLANK ",;"))) {
		profile += *profile == '-'; /* also if it is not there */
		path = *profile ? profile_path(profile, seen) : NULL;
		if (!path)
			continue;
		if (file_sets(path, "include", includes))
			found = last_profile(includes, seen, name, value) ?: found;
		if (file_sets(path, name, value))
			found = path;
	}
	return found;
}

/* The last active profile of tuned that sets it. */
static const char *tuned_profile(const char *name, char value[SYSCTLFILES_VALUE])
{
	struct seen seen = { .n = 0 };
	char active[256];

	if (read_line("/etc/tuned/active_profile", active, sizeof(active)))
		return NULL;
	return last_profile(active, &seen, name, value);
}

/* Does a parameter of the kernel set it? */
static const char *boot_parameter(const char *name, char value[SYSCTLFILES_VALUE])
{
	static const char path[] = "/proc/cmdline", prefix[] = "sysctl.";
	char line[PARAMETERS_MOST], *rest = line, *word;
	const char *found, *last = NULL;

	if (read_line(path, line, sizeof(line)))
		return NULL;
	while ((word = strsep(&rest, BLANK)) && strcmp(word, "--")) {
		if (strncmp(word, prefix, strlen(prefix)))
			continue;
		found = value_of(word + strlen(prefix), name);
		if (found) {
			snprintf(value, SYSCTLFILES_VALUE, "%s", found);
			last = path;
		}
	}
	return last;
}

/* Does tuned apply the host's files after its profiles? The words are those that it reads as yes. */
static bool tuned_reapplies(void)
{
	static const char *const yes[] = { "1", "y", "yes", "t", "true" };
	char value[SYSCTLFILES_VALUE];

	if (!file_sets("/etc/tuned/tuned-main.conf", "reapply_sysctl", value))
		return true;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (!strcasecmp(value, yes[i]))
			return true;
	return false;
}

const char *sysctlfiles_find(const char *name, char value[SYSCTLFILES_VALUE])
{
	const char *boot = boot_parameter(name, value);
	const char *last = last_of(directories, N_DIRECTORIES, name, value) ?: boot;
	const char *profile = tuned_profile(name, value), *again = NULL;

	if (profile && tuned_reapplies())
		again = last_of(reapplied, N_REAPPLIED, name, value);
	return again ?: profile ?: last;
}
