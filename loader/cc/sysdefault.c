// SPDX-License-Identifier: GPL-2.0-only
/* The default controller of this network namespace: see sysdefault.h. */
#include <string.h>
#include <unistd.h>

#include "cc/running.h"
#include "cc/sysdefault.h"
#include "out/errors.h"
#include "sys/borrowed.h"
#include "util/file.h"
#include "util/text.h"

#define SYSCTL "net.ipv4.tcp_congestion_control"
#define AVAILABLE_PATH "/proc/sys/net/ipv4/tcp_available_congestion_control"

static bool told; /* of a default that stays: not twice */

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

/* A default that is there without us. */
static const char *plain(void)
{
	return sysdefault_available("cubic") ? "cubic" : "reno";
}

static bool is_ours(const char *name)
{
	return controller_find(name);
}

static const struct borrowed cc = {
	.pin = "default",
	.name = SYSCTL,
	.path = "/proc/sys/net/ipv4/tcp_congestion_control",
	.is_ours = is_ours,
	.guess = plain, /* the rest of an interrupted ccbpf */
	.fallback = "reno", /* which every kernel has */
	.verb = "set",
	.forgotten = "what was the default in another network namespace is forgotten",
	.fell_back = "reno is the default now",
	.not_back = "new connections still get what is disabled: ",
};

const char *sysdefault_now(void)
{
	static char name[64];

	borrowed_now(&cc, name, sizeof(name));
	return name;
}

const char *sysdefault_previous(void)
{
	static struct loan loan;

	borrowed_look(&cc, &loan);
	return loan.own ? loan.previous : NULL;
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
		.why = "it is restricted to root, so it can only be the default of the host's own network namespace",
		.remedy =
			"enable it without --default; root selects it by socket, or by `ip route ... congctl`");
}

int sysdefault_set(const char *what, const struct controller *c)
{
	int err = check_allowed(what, c);

	if (!err)
		err = borrowed_take(what, &cc, c->name);
	return err;
}

/* The default, with nothing remembered: we have no right to change it. */
static void note_stays(const struct controller *c)
{
	told = true;
	note(SYSCTL,
	     text("%s stays the default: what was the default before it is not known, and new connections still get the programs that are disabled",
		  c->name),
	     text("set another one by `sysctl " SYSCTL "=%s`", plain()));
}

const char *sysdefault_release(const struct controller *c)
{
	static struct loan loan;
	const char *restored;

	borrowed_look(&cc, &loan);
	if (!loan.known) {
		if (strcmp(loan.now, c->name) == 0)
			note_stays(c);
		return NULL;
	}
	restored = borrowed_give_back(
		&cc, &loan, c->name,
		text("%s may still be the default of another network namespace", c->name));
	told |= loan.told;
	return restored;
}

bool sysdefault_settle(bool any)
{
	const struct controller *c;
	struct loan loan;
	bool lingers;

	borrowed_look(&cc, &loan);
	c = controller_find(loan.now);
	lingers = c && !controller_is_enabled(c) && (loan.own || !sysdefault_available(c->name));
	if (loan.known && !loan.own && !any && !told) {
		told = true;
		borrowed_note_elsewhere(
			&cc, &loan,
			"what is disabled may still be the default of another network namespace");
	} else if (lingers && (loan.own || !loan.known) && !told) {
		sysdefault_release(c);
	} else if (loan.own && !c && !any && *loan.now) {
		borrowed_forget(&cc);
	}
	return borrowed_remains(&cc);
}
