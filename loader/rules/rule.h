/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A standing rule: its conditions as a user gives them, as the program takes them, and as they
 * are shown.
 *
 *   --cgroup       /a/path                 the cgroup with this path now, and all below
 *                  unit:NAME, slice:NAME   a unit of the system's systemd, also after a restart
 *                  container:ID, pod:UID   one that runs: sys/cgroupword.h
 *   --remote       ADDRESS[/LENGTH]        the other end, IPv4 or IPv6
 *   --local-port, --remote-port  N[-M]     1 to 65535
 *   --netns        NAME, PATH or PID       a network namespace
 *   --from         NAME                    has this controller, without the rule
 *
 * It is for what the connections send, which gives them a controller, or with --download for what
 * they receive, which holds their window; with --upload as well for both.
 */
#ifndef CCBPF_RULES_RULE_H
#define CCBPF_RULES_RULE_H

#include <json-c/json.h>
#include <stdbool.h>

#include "ccbpf/rule.h"

/* As the command line has them; NULL: not given. */
struct rule_words {
	const char *cgroup, *remote, *local_port, *remote_port, *netns, *from, *dscp;
	bool exempt; /* --not */
	bool force; /* --force */
	bool download, upload; /* --download, --upload; neither: what is sent */
};

/* Whether only what is received is to be in the background: connections keep their controllers. */
bool rule_words_only_receive(const struct rule_words *words);

/* Why they do not belong together, or NULL; `named`: a controller is given as well. */
const char *rule_words_conflict(const struct rule_words *words, bool named);

/* Fail because that, which chooses how to send, is given with --download alone: EXIT_USAGE. */
int rule_fail_only_receives(const char *what, const char *on);

/*
 * Understand a rule's conditions and DSCP; its controller and id are not touched. Returns
 * EXIT_OK, or the exit code after saying what is wrong.
 */
int rule_parse(const char *what, const struct rule_words *words, struct ccbpf_rule *rule);

/* "le", or NULL for none: `*dscp` CCBPF_DSCP_KEEP. Returns EXIT_OK or EXIT_USAGE, said. */
int rule_parse_dscp(const char *what, const char *given, uint32_t *dscp);

/* Whether two ask the same of a connection. */
bool rule_same_conditions(const struct ccbpf_rule *a, const struct ccbpf_rule *b);

/* Whether two give a connection the same. */
bool rule_same_choice(const struct ccbpf_rule *a, const struct ccbpf_rule *b);

/* Let it give this controller; `restricted`: only to sockets of root. */
void rule_give(struct ccbpf_rule *rule, const char *controller, bool restricted);

/* "tcp_lp --force --dscp le", "--download", or "not": a text(). */
const char *rule_choice_text(const struct ccbpf_rule *rule);

/* Where it comes from: "hand", "file" or "pod". */
const char *rule_origin(const struct ccbpf_rule *rule);

/* What it names and is gone for good, so that no connection matches any more: "cgroup",
 * "network namespace", or NULL. */
const char *rule_gone(const struct ccbpf_rule *rule);

/* "--cgroup unit:backup.service --remote 10.0.0.0/8", a text(). */
const char *rule_conditions_text(const struct ccbpf_rule *rule);

/* {"id", "controller", "upload", "download", "not", "force", "dscp", "cgroup", …}; a condition that is
 * not asked: null. */
struct json_object *rule_json(const struct ccbpf_rule *rule,
			      const struct ccbpf_choice_counts *counts);

#endif
