// SPDX-License-Identifier: GPL-2.0-only
/* The default controller of this network namespace: see sysdefault.h. */
#include <string.h>

#include "errors.h"
#include "kernel.h"
#include "sysdefault.h"
#include "sysrecord.h"

#define SYSCTL "net.ipv4.tcp_congestion_control"
#define AVAILABLE_PATH "/proc/sys/net/ipv4/tcp_available_congestion_control"

static const struct sysrecord cc = {
	.pin = "default",
	.name = SYSCTL,
	.path = "/proc/sys/net/ipv4/tcp_congestion_control"
};

const char *sysdefault_now(void)
{
	static char name[64];

	sysrecord_now(&cc, name, sizeof(name));
	return name;
}

bool sysdefault_available(const char *name)
{
	char line[1024], *rest = line;

	if (read_line(AVAILABLE_PATH, line, sizeof(line)))
		return false;
	for (char *word; (word = strsep(&rest, " "));)
		if (strcmp(word, name) == 0)
			return true;
	return false;
}

const char *sysdefault_previous(void)
{
	static char previous[SYSRECORD_LEN];
	bool own;

	return sysrecord_read(&cc, previous, &own) == 0 && own ? previous
							       : NULL;
}

/* Remember what is the default now, for this namespace. */
static int remember(const char *what, const char *previous)
{
	/* Ours, with nothing remembered: the rest of an interrupted ccbpf. */
	if (controller_find(previous))
		previous = sysdefault_available("cubic") ? "cubic" : "reno";
	return sysrecord_remember(what, &cc, previous);
}

int sysdefault_set(const char *what, const struct controller *c)
{
	char previous[SYSRECORD_LEN];
	bool own = false;
	int err = sysrecord_read(&cc, previous, &own);
	bool known = !err && own;

	if (!err && !known)
		note(SYSCTL,
		     "what was the default in another network namespace is forgotten",
		     text("set it there by `sysctl " SYSCTL "=%s`", previous));
	/* While the default is one of ours, what it was before them counts. */
	if (!known || !controller_find(sysdefault_now())) {
		err = remember(what, sysdefault_now());
		if (err)
			return err;
	}
	err = sysrecord_write(&cc, c->name);
	return err ? fail_errno("set", text(SYSCTL "=%s", c->name), err)
		   : EXIT_OK;
}

/*
 * Write the remembered name; where it is not there any more, reno, which every
 * kernel has. Returns what it is now.
 */
static const char *restore(const char *previous)
{
	int err = sysrecord_write(&cc, previous);

	if (!err)
		return previous;
	note(SYSCTL,
	     text("%s cannot be restored: %s", previous, strerror(-err)),
	     "reno is the default now");
	return sysrecord_write(&cc, "reno") ? NULL : "reno";
}

const char *sysdefault_release(const struct controller *c)
{
	static char previous[SYSRECORD_LEN];
	bool own, ours = strcmp(sysdefault_now(), c->name) == 0;
	const char *restored = NULL;

	if (sysrecord_read(&cc, previous, &own))
		return NULL;
	if (!own) {
		note(SYSCTL,
		     text("%s may still be the default of another network namespace",
			  c->name),
		     text("set it there by `sysctl " SYSCTL "=%s`", previous));
		return NULL;
	}
	if (ours)
		restored = restore(previous);
	if (ours || !controller_find(sysdefault_now()))
		sysrecord_forget(&cc);
	return restored;
}
