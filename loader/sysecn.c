// SPDX-License-Identifier: GPL-2.0-only
/* ECN of this network namespace: see sysecn.h. */
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "running.h"
#include "sysecn.h"
#include "sysrecord.h"

/* Documentation/networking/ip-sysctl.rst */
#define ASK "1" /* in and out */
#define ASK_AND_TAKE_ACCURATE "4" /* out as RFC 3168, in as it comes (6.18) */

static const struct sysrecord ecn = { .pin = "ecn",
				      .name = "net.ipv4.tcp_ecn",
				      .path = "/proc/sys/net/ipv4/tcp_ecn" };

static const char *now(void)
{
	static char value[SYSRECORD_LEN];

	sysrecord_now(&ecn, value, sizeof(value));
	return value;
}

bool sysecn_asks(void)
{
	return !strcmp(now(), ASK) || !strcmp(now(), ASK_AND_TAKE_ACCURATE);
}

const char *sysecn_text(void)
{
	return text("%s=%s", ecn.name, now());
}

const char *sysecn_remedy(void)
{
	return "`ccbpf enable --ecn NAME` lets them ask, or `ip route change ... features ecn` on a route";
}

int sysecn_set(const char *what)
{
	char previous[SYSRECORD_LEN];
	bool own = false;
	int err = sysrecord_read(&ecn, previous, &own);

	if (sysecn_asks())
		return EXIT_OK;
	if (!err && !own)
		note(ecn.name,
		     "what it was in another network namespace is forgotten",
		     text("set it there by `sysctl %s=%s`", ecn.name,
			  previous));
	err = sysrecord_remember(what, &ecn, now());
	if (err)
		return err;
	err = sysrecord_write(&ecn, ASK);
	return err ? fail_errno(what, text("%s=" ASK, ecn.name), err) : EXIT_OK;
}

/* Is another one enabled that wants it? */
static bool wanted_besides(const struct controller *going)
{
	bool wanted = false;

	for_each_controller (c) {
		struct running running;

		if (c == going || !controller_wants_ecn(c) ||
		    running_open("look", c, &running))
			continue;
		wanted |= running.state == RUN_ENABLED;
		running_close(&running);
	}
	return wanted;
}

const char *sysecn_release(const struct controller *c)
{
	static char previous[SYSRECORD_LEN];
	const char *restored = NULL;
	bool own;
	int err;

	if (!controller_wants_ecn(c) || sysrecord_read(&ecn, previous, &own) ||
	    wanted_besides(c))
		return NULL;
	if (!own) {
		note(ecn.name,
		     "it may still be set in another network namespace",
		     text("set it there by `sysctl %s=%s`", ecn.name,
			  previous));
		return NULL;
	}
	if (!strcmp(now(), ASK)) {
		err = sysrecord_write(&ecn, previous);
		if (err) {
			note(ecn.name,
			     text("%s cannot be restored: %s", previous,
				  strerror(-err)),
			     text("set it by `sysctl %s=%s` where /proc/sys can be written",
				  ecn.name, previous));
			return NULL;
		}
		restored = previous;
	}
	sysrecord_forget(&ecn);
	return restored;
}
