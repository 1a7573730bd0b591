// SPDX-License-Identifier: GPL-2.0-only
/* A standing rule as a user gives it: see rule.h. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "rules/rule.h"
#include "sys/cgroup.h"
#include "sys/cgroupword.h"
#include "sys/netns.h"
#include "sys/prefix.h"
#include "util/number.h"
#include "util/text.h"

static int wrong(const char *what, const char *option, const char *given, const char *why,
		 const char *remedy)
{
	return FAIL(EXIT_USAGE, .what = what, .on = text("%s %s", option, given), .why = why,
		    .remedy = remedy);
}

bool rule_words_only_receive(const struct rule_words *words)
{
	return words->download && !words->upload;
}

const char *rule_words_conflict(const struct rule_words *words, bool named)
{
	bool sends = named || words->force || words->dscp;

	if (words->exempt && (sends || words->download || words->upload))
		return "connections that are left alone get no controller, force or dscp, and no direction";
	if (rule_words_only_receive(words) && sends)
		return "controller, force and dscp are for what is sent, and it is for what is received";
	return NULL;
}

int rule_fail_only_receives(const char *what, const char *on)
{
	return FAIL(EXIT_USAGE, .what = what, .on = on,
		    .why = "that is for what is sent, and --download alone is for what is received",
		    .remedy = "add --upload, or leave it out");
}

int rule_parse_dscp(const char *what, const char *given, uint32_t *dscp)
{
	*dscp = CCBPF_DSCP_KEEP;
	if (!given)
		return EXIT_OK;
	if (strcmp(given, "le"))
		return wrong(what, "--dscp", given, "it is not a DSCP that is known here",
			     "give `le`, lower effort (RFC 8622)");
	*dscp = CCBPF_DSCP_LE;
	return EXIT_OK;
}

static int parse_ports(const char *what, const char *option, const char *given, __u16 *first,
		       __u16 *last)
{
	unsigned long a, b;
	char *end;
	bool good = number_parse(given, 1, 65535, &a, &end);

	b = a;
	if (good && *end == '-')
		good = number_parse(end + 1, a, 65535, &b, &end);
	if (!good || *end)
		return wrong(what, option, given, "it is not a port or a range of ports",
			     "give N or N-M, from 1 to 65535");
	*first = a;
	*last = b;
	return EXIT_OK;
}

/* Of a unit or slice, which need not run. */
static int take_unit(const char *what, const char *given, const char *unit, struct ccbpf_rule *rule)
{
	if (strlen(unit) >= CCBPF_UNIT_LEN)
		return wrong(what, "--cgroup", given,
			     text("a unit's name has at most %d characters in a rule",
				  CCBPF_UNIT_LEN - 1),
			     "name its slice");
	strcpy(rule->cgroup, unit);
	rule->conditions |= CCBPF_RULE_UNIT;
	return EXIT_OK;
}

/* Of a cgroup that exists. */
static int take_path(const char *what, const char *given, const char *path, struct ccbpf_rule *rule)
{
	int fd;

	if (strlen(path) >= CCBPF_CGROUP_LEN)
		return fail_errno(what, text("--cgroup %s", given), ENAMETOOLONG);
	strcpy(rule->cgroup, path);
	fd = cgroup_open(rule->cgroup);
	if (fd == -ENOENT)
		return FAIL(
			EXIT_FAILED, .what = what, .on = text("--cgroup %s", given),
			.why = "there is no such cgroup now",
			.remedy =
				"start what runs in it first; unit:NAME and slice:NAME need not run");
	if (fd < 0)
		return fail_errno(what, text("--cgroup %s", given), fd);
	rule->cgroup_id = cgroup_id(fd);
	close(fd);
	rule->conditions |= CCBPF_RULE_CGROUP;
	return EXIT_OK;
}

static int parse_cgroup(const char *what, const char *given, struct ccbpf_rule *rule)
{
	struct cgroup_word word;
	int err = cgroup_require(what, text("--cgroup %s", given));

	if (!err)
		err = cgroup_word_parse(what, "--cgroup", given, &word);
	if (err)
		return err;
	if (word.unit)
		return take_unit(what, given, word.unit, rule);
	if (!word.path &&
	    (*given != '/' || strlen(given) >= CCBPF_CGROUP_LEN || strstr(given, "..")))
		return wrong(what, "--cgroup", given, "it is not a cgroup",
			     "give /PATH, unit:NAME, slice:NAME, container:ID or pod:UID");
	return take_path(what, given, word.path ?: given, rule);
}

static int parse_netns(const char *what, const char *given, struct ccbpf_rule *rule)
{
	uint64_t cookie = 0;
	int err = strlen(given) < CCBPF_UNIT_LEN ? netns_cookie(given, &cookie) : -ENAMETOOLONG;

	if (err)
		return FAIL(EXIT_FAILED, .what = what, .on = text("--netns %s", given),
			    .why = text("it is no network namespace: %s", strerror(-err)),
			    .remedy =
				    "give a name that `ip netns` shows, a path, or a process's id");
	rule->netns_cookie = cookie;
	snprintf(rule->netns, sizeof(rule->netns), "%s", given);
	rule->conditions |= CCBPF_RULE_NETNS;
	return EXIT_OK;
}

/* Any name that a controller may have: it need not exist yet. */
static int parse_from(const char *what, const char *given, struct ccbpf_rule *rule)
{
	size_t length = strlen(given), printed = 0;

	while (isgraph((unsigned char)given[printed]))
		printed++;
	if (!length || length >= CCBPF_NAME_LEN || printed < length)
		return wrong(what, "--from", given,
			     text("a controller's name has 1 to %d characters, and no spaces",
				  CCBPF_NAME_LEN - 1),
			     "`ccbpf list` shows ours; "
			     "`sysctl net.ipv4.tcp_available_congestion_control` shows all");
	memcpy(rule->from, given, length);
	rule->conditions |= CCBPF_RULE_FROM;
	return EXIT_OK;
}

int rule_parse(const char *what, const struct rule_words *words, struct ccbpf_rule *rule)
{
	int err = rule_parse_dscp(what, words->dscp, &rule->choice.dscp);

	if (!err && words->cgroup)
		err = parse_cgroup(what, words->cgroup, rule);
	if (!err && words->remote) {
		rule->conditions |= CCBPF_RULE_REMOTE;
		err = prefix_parse(what, "--remote", words->remote, &rule->remote);
	}
	if (!err && words->local_port) {
		rule->conditions |= CCBPF_RULE_LOCAL_PORT;
		err = parse_ports(what, "--local-port", words->local_port, &rule->local_first,
				  &rule->local_last);
	}
	if (!err && words->remote_port) {
		rule->conditions |= CCBPF_RULE_REMOTE_PORT;
		err = parse_ports(what, "--remote-port", words->remote_port, &rule->remote_first,
				  &rule->remote_last);
	}
	if (!err && words->netns)
		err = parse_netns(what, words->netns, rule);
	if (!err && words->from)
		err = parse_from(what, words->from, rule);
	if (words->exempt)
		rule->choice.flags |= CCBPF_CHOICE_EXEMPT;
	if (words->force)
		rule->choice.flags |= CCBPF_CHOICE_FORCE;
	if (words->download && !words->exempt)
		rule->choice.flags |= CCBPF_CHOICE_DOWNLOAD;
	if (rule_words_only_receive(words) && !words->exempt)
		rule->choice.flags |= CCBPF_CHOICE_KEEP;
	if (err)
		return err;
	if (!rule->conditions)
		return FAIL(
			EXIT_USAGE, .what = what, .why = "no condition is given",
			.remedy =
				"give --cgroup, --remote, a port, --netns or --from; for all connections "
				"`ccbpf enable NAME --default`");
	return EXIT_OK;
}

void rule_give(struct ccbpf_rule *rule, const char *controller, bool restricted)
{
	snprintf(rule->choice.controller, sizeof(rule->choice.controller), "%s", controller);
	if (restricted)
		rule->choice.flags |= CCBPF_CHOICE_RESTRICTED;
}

bool rule_same_conditions(const struct ccbpf_rule *a, const struct ccbpf_rule *b)
{
	return a->conditions == b->conditions && a->netns_cookie == b->netns_cookie &&
	       a->cgroup_id == b->cgroup_id && !memcmp(&a->remote, &b->remote, sizeof(a->remote)) &&
	       a->local_first == b->local_first && a->local_last == b->local_last &&
	       a->remote_first == b->remote_first && a->remote_last == b->remote_last &&
	       !strcmp(a->from, b->from) &&
	       (!(a->conditions & CCBPF_RULE_UNIT) || !strcmp(a->cgroup, b->cgroup));
}

bool rule_same_choice(const struct ccbpf_rule *a, const struct ccbpf_rule *b)
{
	return a->choice.flags == b->choice.flags && a->choice.dscp == b->choice.dscp &&
	       !strcmp(a->choice.controller, b->choice.controller);
}

static bool cgroup_is_gone(const struct ccbpf_rule *rule)
{
	bool gone;
	int fd;

	if (!(rule->conditions & CCBPF_RULE_CGROUP) || cgroup_reach())
		return false;
	fd = cgroup_open(rule->cgroup);
	gone = fd == -ENOENT || (fd >= 0 && cgroup_id(fd) != rule->cgroup_id);
	if (fd >= 0)
		close(fd);
	return gone;
}

const char *rule_gone(const struct ccbpf_rule *rule)
{
	if (cgroup_is_gone(rule))
		return "cgroup";
	if (rule->conditions & CCBPF_RULE_NETNS &&
	    netns_is_gone("rule", rule->netns, rule->netns_cookie))
		return "network namespace";
	return NULL;
}
