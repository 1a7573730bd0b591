// SPDX-License-Identifier: GPL-2.0-only
/* Names of systemd's units: see unit.h. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sys/unit.h"
#include "util/text.h"

#define NAME_MOST 255 /* UNIT_NAME_MAX of systemd, with the type and without a NUL */

/* Those that have processes, and so a cgroup. */
static const char *const types[] = { ".service", ".slice", ".scope", ".socket", ".mount", ".swap" };

static bool has_type(const char *name)
{
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(dot, types[i]))
			return dot != name;
	return false;
}

/* The characters of systemd.unit(5), "Description". */
static bool is_allowed(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr(":-_.\\@", c));
}

const char *unit_name(const char *given, const char *type)
{
	const char *name;

	if (!*given || strlen(given) > NAME_MOST)
		return NULL;
	for (const char *c = given; *c; c++)
		if (!is_allowed(*c))
			return NULL;
	name = text("%s%s", given, has_type(given) ? "" : type);
	return strlen(name) <= NAME_MOST ? name : NULL;
}
