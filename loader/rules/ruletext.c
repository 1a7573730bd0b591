// SPDX-License-Identifier: GPL-2.0-only
/* A standing rule as it is shown: see rule.h. */
#include <string.h>

#include "out/json.h"
#include "rules/rule.h"
#include "sys/prefix.h"
#include "util/text.h"

static const char *ports(__u16 first, __u16 last)
{
	return first == last ? text("%u", first) : text("%u-%u", first, last);
}

/* As the option took it. */
static const char *cgroup_text(const struct ccbpf_rule *rule)
{
	const char *dot = strrchr(rule->cgroup, '.');

	if (rule->conditions & CCBPF_RULE_CGROUP)
		return text("%s", rule->cgroup);
	return text("%s:%s", dot && !strcmp(dot, ".slice") ? "slice" : "unit", rule->cgroup);
}

/* Each condition: its option, whether it is asked, and its text. */
#define CONDITIONS(X)                                                                          \
	X("cgroup", CCBPF_RULE_CGROUP | CCBPF_RULE_UNIT, cgroup_text(rule))                    \
	X("remote", CCBPF_RULE_REMOTE, prefix_text(&rule->remote))                             \
	X("local-port", CCBPF_RULE_LOCAL_PORT, ports(rule->local_first, rule->local_last))     \
	X("remote-port", CCBPF_RULE_REMOTE_PORT, ports(rule->remote_first, rule->remote_last)) \
	X("netns", CCBPF_RULE_NETNS, text("%s", rule->netns))                                  \
	X("from", CCBPF_RULE_FROM, text("%s", rule->from))

const char *rule_conditions_text(const struct ccbpf_rule *rule)
{
	char *words = text("%*s", TEXT_MOST - 1, "");

	*words = '\0';
#define X(option, asked, value)         \
	if (rule->conditions & (asked)) \
		append(words, TEXT_MOST, " ", "--%s %s", option, value);
	CONDITIONS(X)
#undef X
	return words;
}

const char *rule_choice_text(const struct ccbpf_rule *rule)
{
	__u32 flags = rule->choice.flags;

	if (flags & CCBPF_CHOICE_KEEP)
		return "--download";
	return text("%s%s%s%s", flags & CCBPF_CHOICE_EXEMPT ? "not" : rule->choice.controller,
		    flags & CCBPF_CHOICE_DOWNLOAD ? " --upload --download" : "",
		    flags & CCBPF_CHOICE_FORCE ? " --force" : "",
		    rule->choice.dscp == CCBPF_DSCP_LE ? " --dscp le" : "");
}

const char *rule_origin(const struct ccbpf_rule *rule)
{
	if (rule->place == CCBPF_PLACE_HAND)
		return "hand";
	return rule->place == CCBPF_PLACE_POD ? "pod" : "file";
}

struct json_object *rule_json(const struct ccbpf_rule *rule,
			      const struct ccbpf_choice_counts *counts)
{
	struct json_object *doc = json_object_new_object(), *counted = json_object_new_object();
	__u32 flags = rule->choice.flags;
	bool uploads = !(flags & (CCBPF_CHOICE_EXEMPT | CCBPF_CHOICE_KEEP));

	add_number(doc, "id", rule->id);
	add_text(doc, "controller", uploads ? rule->choice.controller : NULL);
	add_bool(doc, "upload", uploads);
	add_bool(doc, "download", flags & CCBPF_CHOICE_DOWNLOAD);
	add_bool(doc, "not", flags & CCBPF_CHOICE_EXEMPT);
	add_bool(doc, "force", flags & CCBPF_CHOICE_FORCE);
	json_object_object_add(doc, "dscp",
			       rule->choice.dscp < CCBPF_DSCP_KEEP
				       ? json_object_new_int(rule->choice.dscp)
				       : NULL);
#define X(option, asked, value) add_text(doc, option, rule->conditions &(asked) ? value : NULL);
	CONDITIONS(X)
#undef X
	add_bool(doc, "gone", rule_gone(rule) != NULL);
	add_bool(doc, "file", rule->place >= CCBPF_PLACE_FILE);
	add_bool(doc, "pod", rule->place == CCBPF_PLACE_POD);
#define X(name, text) add_number(counted, #name, counts->name);
	CCBPF_CHOICE_COUNTS(X)
#undef X
	json_object_object_add(doc, "counts", counted);
	return doc;
}
