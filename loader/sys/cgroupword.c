// SPDX-License-Identifier: GPL-2.0-only
/* A cgroup as the user names it: see cgroupword.h. */
#include <string.h>

#include "out/errors.h"
#include "sys/cgroup.h"
#include "sys/cgroupword.h"
#include "sys/unit.h"
#include "util/text.h"

#define ID_LEAST 12 /* digits of a container's id: what `docker ps` shows */

/* The word and the option that it was given to. */
struct given {
	const char *what, *option, *word;
};

static int parse_unit(const struct given *given, const char *name, const char *ending,
		      struct cgroup_word *out)
{
	out->unit = unit_name(name, ending);
	if (out->unit)
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = given->what,
		    .on = text("%s %s", given->option, given->word),
		    .why = "a unit's name has 1 to 255 letters, digits and \":-_.\\@\"",
		    .remedy = "give it as `systemctl status` shows it");
}

/* The first two cgroups with this id. A dash in the name of a slice means "below", so the kubelet
 * writes a pod's id with underscores there. */
static unsigned int find_either(const char *id, const char *paths[2])
{
	unsigned int n = cgroup_find_id(id, paths);
	const char *dash = strchr(id, '-'), *underscored = id;

	if (n || !dash)
		return n;
	for (; dash; dash = strchr(underscored, '-'))
		underscored = text("%.*s_%s", (int)(dash - underscored), underscored, dash + 1);
	return cgroup_find_id(underscored, paths);
}

/* A container or pod, by its id in its cgroup's name. */
static int find_id(const struct given *given, const char *id, struct cgroup_word *out)
{
	const char *paths[2], *on = text("%s %s", given->option, given->word);
	unsigned int n;

	if (strlen(id) < ID_LEAST || strspn(id, "0123456789abcdefABCDEF-_") != strlen(id))
		return FAIL(
			EXIT_USAGE, .what = given->what, .on = on,
			.why = text("an id has at least %d hexadecimal digits", ID_LEAST),
			.remedy =
				"`docker ps`, `podman ps` and `crictl ps` show ids of containers");
	n = find_either(id, paths);
	if (n == 1) {
		out->path = paths[0];
		return EXIT_OK;
	}
	return FAIL(EXIT_FAILED, .what = given->what, .on = on,
		    .why = n ? "several cgroups have this id"
			     : "no cgroup has this id: it does not run",
		    .remedy = n ? "give the whole id"
				: "start it first, or give its cgroup's path");
}

/* What follows the prefix, or NULL. */
static const char *after(const char *word, const char *prefix)
{
	return strncmp(word, prefix, strlen(prefix)) ? NULL : word + strlen(prefix);
}

int cgroup_word_parse(const char *what, const char *option, const char *word,
		      struct cgroup_word *out)
{
	const struct given given = { what, option, word };
	const char *rest;

	*out = (struct cgroup_word){ 0 };
	if ((rest = after(word, "unit:")))
		return parse_unit(&given, rest, ".service", out);
	if ((rest = after(word, "slice:")))
		return parse_unit(&given, rest, ".slice", out);
	if ((rest = after(word, "container:")) || (rest = after(word, "pod:")))
		return find_id(&given, rest, out);
	return EXIT_OK;
}
