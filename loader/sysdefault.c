// SPDX-License-Identifier: GPL-2.0-only
/* The default controller of this network namespace: see sysdefault.h. */
#include <string.h>
#include <unistd.h>

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

/* A sysctl of the whole host is in the first network namespace only. */
static bool is_first_netns(void)
{
	return access("/proc/sys/net/ipv4/tcp_max_orphans", F_OK) == 0;
}

/* The kernel refuses it (net/ipv4/tcp_cong.c), and 6.18 keeps a reference then, so that
 * the programs stay until the next boot: so it is not asked. */
static int check_allowed(const char *what, const struct controller *c)
{
	if (c->open || is_first_netns())
		return EXIT_OK;
	return FAIL(
		EXIT_FAILED, .what = what, .on = c->name,
		.why = "only the host's own network namespace can have it as its default: it is for root alone",
		.remedy =
			"enable it without --default; root selects it by socket, or by `ip route ... congctl`");
}

int sysdefault_set(const char *what, const struct controller *c)
{
	char previous[SYSRECORD_LEN];
	bool own = false;
	int err = sysrecord_read(&cc, previous, &own);
	bool known = !err && own;
	int refused = check_allowed(what, c);

	if (refused)
		return refused;
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
 * kernel has. Returns what it is now, or NULL where nothing could be written.
 */
static const char *restore(const char *previous)
{
	int err = sysrecord_write(&cc, previous);
	bool reno;

	if (!err)
		return previous;
	reno = sysrecord_write(&cc, "reno") == 0;
	note(SYSCTL,
	     text("%s cannot be restored: %s", previous, strerror(-err)),
	     reno ? "reno is the default now"
		  : text("new connections still get what is disabled: set it by `sysctl "
			 SYSCTL "=%s` where /proc/sys can be written",
			 previous));
	return reno ? "reno" : NULL;
}

/* The default, set by somebody else, which we have no right to change. */
static void note_foreign(const struct controller *c)
{
	note(SYSCTL,
	     text("%s stays the default, as ccbpf did not set it: new connections still get the programs that are disabled",
		  c->name),
	     text("set another one by `sysctl " SYSCTL "=%s`",
		  sysdefault_available("cubic") ? "cubic" : "reno"));
}

const char *sysdefault_release(const struct controller *c)
{
	static char previous[SYSRECORD_LEN];
	bool own, ours = strcmp(sysdefault_now(), c->name) == 0;
	const char *restored = NULL;

	if (sysrecord_read(&cc, previous, &own)) {
		if (ours)
			note_foreign(c);
		return NULL;
	}
	if (!own) {
		note(SYSCTL,
		     text("%s may still be the default of another network namespace",
			  c->name),
		     text("set it there by `sysctl " SYSCTL "=%s`", previous));
		return NULL;
	}
	if (ours)
		restored = restore(previous);
	if (restored || !controller_find(sysdefault_now()))
		sysrecord_forget(&cc);
	return restored;
}
