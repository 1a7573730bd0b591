// SPDX-License-Identifier: GPL-2.0-only
/* ECN of this network namespace: see sysecn.h. */
#include <string.h>

#include "cc/running.h"
#include "cc/sysecn.h"
#include "out/errors.h"
#include "sys/borrowed.h"
#include "util/text.h"

/* Documentation/networking/ip-sysctl.rst; include/net/tcp_ecn.h, enum tcp_ecn_mode */
#define ASK "1" /* RFC 3168, in and out */
#define ASK_ACCURATE "3" /* AccECN, in and out (6.19) */
#define ASK_AND_TAKE_ACCURATE "4" /* RFC 3168 out, AccECN in where the peer asks for it */

static bool is_ours(const char *value)
{
	return strcmp(value, ASK) == 0;
}

static const struct borrowed ecn = {
	.pin = "ecn",
	.name = "net.ipv4.tcp_ecn",
	.path = "/proc/sys/net/ipv4/tcp_ecn",
	.is_ours = is_ours,
	.forgotten = "the previous value in another network namespace is no longer known",
	.not_back = "",
};

const char *sysecn_value(void)
{
	static char value[BORROWED_LEN];

	borrowed_now(&ecn, value, sizeof(value));
	return value;
}

enum sysecn sysecn_now(void)
{
	const char *value = sysecn_value();

	if (!strcmp(value, ASK))
		return SYSECN_CLASSIC;
	return !strcmp(value, ASK_ACCURATE) || !strcmp(value, ASK_AND_TAKE_ACCURATE)
		       ? SYSECN_ACCURATE
		       : SYSECN_NONE;
}

const char *sysecn_lacks(void)
{
	switch (sysecn_now()) {
	case SYSECN_NONE:
		return "connections from here do not ask for ECN";
	case SYSECN_ACCURATE:
		return "connections may agree on AccECN, whose receiver does not echo each packet's mark";
	default:
		return "";
	}
}

const char *sysecn_text(void)
{
	return text("%s=%s", ecn.name, sysecn_value());
}

const char *sysecn_remedy(void)
{
	return sysecn_now() == SYSECN_ACCURATE
		       ? "`ccbpf enable --ecn NAME` or `sysctl net.ipv4.tcp_ecn=1` lets them agree on RFC 3168's ECN"
		       : "`ccbpf enable --ecn NAME` lets them ask, or `ip route change ... features ecn` on a route";
}

const char *sysecn_previous(void)
{
	static struct loan loan;

	borrowed_look(&ecn, &loan);
	return loan.own ? loan.previous : NULL;
}

int sysecn_set(const char *what)
{
	return sysecn_now() == SYSECN_CLASSIC ? EXIT_OK : borrowed_take(what, &ecn, ASK);
}

/* Is another one enabled that wants it? */
static bool wanted_besides(const struct controller *going)
{
	bool wanted = false;

	for_each_controller (c)
		wanted |= c != going && controller_wants_ecn(c) && controller_is_enabled(c);
	return wanted;
}

/* What it is again, or NULL. Told once, whether or not it can be restored. */
static const char *restore(void)
{
	static struct loan loan;

	if (loan.known)
		return NULL;
	borrowed_look(&ecn, &loan);
	if (!loan.known)
		return NULL;
	return borrowed_give_back(&ecn, &loan, ASK,
				  "it may still be set in another network namespace");
}

const char *sysecn_give_back(void)
{
	return restore();
}

const char *sysecn_release(const struct controller *c)
{
	return controller_wants_ecn(c) && !wanted_besides(c) ? restore() : NULL;
}

bool sysecn_settle(void)
{
	if (!wanted_besides(NULL))
		restore();
	return borrowed_remains(&ecn);
}
