// SPDX-License-Identifier: GPL-2.0-only
/*
 * The conditions of `ccbpf assign`: cgroups, units, remote prefixes, ports, network namespaces.
 *
 * An input is two rules with an empty line between them; a line is an option and its argument:
 *
 *	--cgroup unit:backup.service
 *	--remote 10.0.0.0/8
 *
 *  1. What is refused is refused in one sentence with a remedy.
 *  2. What is accepted is in range, and has the conditions that were given, no other.
 *  3. It is shown as words that give the same rule when they are parsed again.
 *  4. No name leads out of the cgroup file system or of /run/netns.
 *  5. The order in which rules win is an order, and rules that are called the same look the same.
 *
 * The cgroup file system is a directory of ours, and no namespace is entered.
 */
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "frame.h"
#include "out/json.h"
#include "out/output.h"
#include "rules/rule.h"
#include "rules/sets.h"
#include "util/text.h"

static int open_below(int dir, const char *path, int flags);
static int open_namespace(const char *path, int flags);

#define openat(dir, path, flags) open_below(dir, path, flags)
#define fstatfs(fd, fs) ((fs)->f_type = CGROUP2_SUPER_MAGIC, 0)
#include "sys/cgroup.c"
#undef openat
#undef fstatfs

#define open(path, flags) open_namespace(path, flags)
#define access(path, mode) (strcmp(path, "/run/netns/7") ? -1 : 0)
#define setns(fd, kind) 0
#include "sys/netns.c"
#undef open
#undef access
#undef setns

#define CONTAINER "docker-0123456789abcdef0123456789abcdef.scope"
#define LONG                                                                               \
	"/2345678901234567890123456789012345678901234567890123456789012345678901234567890" \
	"12345678901234567890123456789012345678901234567890123456789012345678901234567890" \
	"12345678901234567890123456789012345678901234567890123456789012345678901234567890"

/* Is a component of the path ".."? */
static bool climbs(const char *path)
{
	for (; *path; path += strcspn(path, "/"), path += *path == '/')
		if (path[0] == '.' && path[1] == '.' && (path[2] == '/' || !path[2]))
			return true;
	return false;
}

static int open_below(int dir, const char *path, int flags)
{
	HOLDS(*path != '/' && !climbs(path));
	return openat(dir, path, flags);
}

static const char *namespace_given; /* by the rule under test */

static int open_namespace(const char *path, int flags)
{
	const char *given = namespace_given;

	if (!strcmp(path, "/proc/self/ns/net"))
		return open(path, flags);
	HOLDS(given && *given);
	if (*given == '/')
		HOLDS(!strcmp(path, given));
	else if (!strncmp(path, "/proc/", 6))
		HOLDS(strspn(path + 6, "0123456789") == strlen(path) - strlen("/proc//ns/net"));
	else
		HOLDS(!strncmp(path, "/run/netns/", 11) && !strchr(path + 11, '/'));
	return open("/proc/self/ns/net", flags);
}

/* Beside the program: some cgroups. */
static void make_cgroups(void)
{
	static const char *const names[] = { "",
					     "/system.slice",
					     "/system.slice/backup.service",
					     "/a b",
					     "/a b/--remote",
					     ("/x.slice/" CONTAINER),
					     "/x.slice",
					     LONG,
					     LONG LONG };
	char at[PATH_MAX / 2] = "", path[PATH_MAX];

	HOLDS(readlink("/proc/self/exe", at, sizeof(at) - 8) > 0);
	strcpy(strrchr(at, '/'), "/cgroups");
	for (int round = 0; round < 2; round++) /* a parent may come later */
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			snprintf(path, sizeof(path), "%s%s", at, names[i]);
			mkdir(path, 0755);
		}
	top_fd = openat(AT_FDCWD, at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	HOLDS(top_fd >= 0);
}

/* The words of a rule, in the lines of a text: up to the empty one. */
static char *words_of(char *text, struct rule_words *words)
{
	const struct {
		const char *option;
		const char **word;
	} options[] = {
		{ "--cgroup ", &words->cgroup },
		{ "--remote ", &words->remote },
		{ "--local-port ", &words->local_port },
		{ "--dscp ", &words->dscp },
		{ "--remote-port ", &words->remote_port },
		{ "--netns ", &words->netns },
		{ "--from ", &words->from },
	};
	char *line;

	while ((line = strsep(&text, "\n")) && *line) {
		words->exempt |= !strcmp(line, "--not");
		words->force |= !strcmp(line, "--force");
		words->download |= !strcmp(line, "--download");
		words->upload |= !strcmp(line, "--upload");
		for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
			if (!strncmp(line, options[i].option, strlen(options[i].option)))
				*options[i].word = line + strlen(options[i].option);
	}
	return text;
}

static int parse(const struct rule_words *words, struct ccbpf_rule *rule)
{
	int code;

	*rule = (struct ccbpf_rule){ .choice.controller = "tcp_lp" };
	namespace_given = words->netns;
	code = rule_parse("assign", words, rule);
	fuzz_said(code);
	return code;
}

/* systemd would find it: the whole name, of a type that has processes. */
static void check_unit(const char *name)
{
	static const char *const types[] = { ".service", ".slice", ".scope",
					     ".socket",	 ".mount", ".swap" };
	const char *type = strrchr(name, '.');
	bool known = false;

	HOLDS(type && type != name && strlen(name) < CCBPF_UNIT_LEN);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		known |= !strcmp(type, types[i]);
	HOLDS(known && !strpbrk(name, "/ \"'"));
}

static void check_ports(bool given, __u16 first, __u16 last)
{
	HOLDS(given ? first >= 1 && first <= last : !first && !last);
}

static void check_ranges(const struct rule_words *words, const struct ccbpf_rule *rule)
{
	__u32 asked = rule->conditions, cgroup = asked & (CCBPF_RULE_CGROUP | CCBPF_RULE_UNIT);

	HOLDS(asked && asked < 2 * CCBPF_RULE_FROM);
	HOLDS(!words->cgroup == !cgroup && cgroup != (CCBPF_RULE_CGROUP | CCBPF_RULE_UNIT));
	HOLDS(!words->remote == !(asked & CCBPF_RULE_REMOTE));
	HOLDS(!words->netns == !(asked & CCBPF_RULE_NETNS));
	HOLDS(!words->local_port == !(asked & CCBPF_RULE_LOCAL_PORT));
	HOLDS(!words->remote_port == !(asked & CCBPF_RULE_REMOTE_PORT));
	HOLDS(!words->from == !(asked & CCBPF_RULE_FROM) && !words->from == !*rule->from);
	HOLDS(!words->from || !strcmp(rule->from, words->from));
	check_ports(words->local_port, rule->local_first, rule->local_last);
	check_ports(words->remote_port, rule->remote_first, rule->remote_last);
	HOLDS(rule->remote.bits <= 128);
	HOLDS(rule->choice.dscp == (words->dscp ? CCBPF_DSCP_LE : CCBPF_DSCP_KEEP));
	HOLDS(memchr(rule->cgroup, 0, sizeof(rule->cgroup)));
	HOLDS(memchr(rule->netns, 0, sizeof(rule->netns)));
	if (cgroup == CCBPF_RULE_UNIT)
		check_unit(rule->cgroup);
	if (cgroup == CCBPF_RULE_CGROUP)
		HOLDS(*rule->cgroup == '/' && rule->cgroup_id);
}

static const char *word_in(struct json_object *doc, const char *option)
{
	struct json_object *value;

	HOLDS(json_object_object_get_ex(doc, option, &value));
	return json_object_get_string(value);
}

static struct rule_words words_in(struct json_object *doc)
{
	return (struct rule_words){
		.cgroup = word_in(doc, "cgroup"),
		.remote = word_in(doc, "remote"),
		.local_port = word_in(doc, "local-port"),
		.remote_port = word_in(doc, "remote-port"),
		.netns = word_in(doc, "netns"),
		.from = word_in(doc, "from"),
		.dscp = word_in(doc, "dscp") ? "le" : NULL,
		.exempt = !strcmp(word_in(doc, "not"), "true"),
		.force = !strcmp(word_in(doc, "force"), "true"),
		.download = !strcmp(word_in(doc, "download"), "true"),
		.upload = !strcmp(word_in(doc, "upload"), "true"),
	};
}

/* As `assign list` shows it. */
static void check_text(const struct ccbpf_rule *rule, const struct rule_words *shown)
{
	char whole[2048] = "";

#define WORD(option, word) \
	if (shown->word)   \
		append(whole, sizeof(whole), " ", "--" option " %s", shown->word);
	WORD("cgroup", cgroup)
	WORD("remote", remote)
	WORD("local-port", local_port)
	WORD("remote-port", remote_port)
	WORD("netns", netns)
	WORD("from", from)
#undef WORD
	HOLDS(!strcmp(rule_conditions_text(rule), whole));
}

static struct json_object *check_shown(const struct ccbpf_rule *rule)
{
	const struct ccbpf_choice_counts counts = { .set = 1, .kept = 2, .unmarked = ~0ULL };
	struct json_object *doc = rule_json(rule, &counts), *other;
	const struct rule_words shown = words_in(doc);
	struct ccbpf_rule again;

	fuzz_json(doc);
	/* A name that a terminal would obey is shown with "?" in its place. */
	if (!fuzz_printable(rule->cgroup) || !fuzz_printable(rule->netns))
		return doc;
	HOLDS(parse(&shown, &again) == 0);
	again.id = rule->id;
	HOLDS(rule_same_conditions(rule, &again) && rule_same_conditions(&again, rule));
	HOLDS(!memcmp(&rule->choice, &again.choice, sizeof(again.choice)));
	other = rule_json(&again, &counts);
	HOLDS(json_object_equal(doc, other));
	json_object_put(other);
	check_text(rule, &shown);
	return doc;
}

static bool same_word(struct json_object *a, struct json_object *b, const char *option)
{
	const char *x = word_in(a, option), *y = word_in(b, option);

	return x && y ? !strcmp(x, y) : x == y;
}

static void check_pair(const struct ccbpf_rule rules[2], struct json_object *docs[2])
{
	const struct ccbpf_rule *a = &rules[0], *b = &rules[1];
	bool same = rule_same_conditions(a, b);
	int order = rule_order(a, b);

	HOLDS(same == rule_same_conditions(b, a));
	HOLDS(order && order == -rule_order(b, a) && !rule_order(a, a));
	if (!same)
		return;
	HOLDS(same_word(docs[0], docs[1], "remote"));
	HOLDS(same_word(docs[0], docs[1], "local-port"));
	HOLDS(same_word(docs[0], docs[1], "remote-port"));
	HOLDS(same_word(docs[0], docs[1], "from"));
	if (a->conditions & CCBPF_RULE_UNIT)
		HOLDS(same_word(docs[0], docs[1], "cgroup"));
	if ((a->choice.flags ^ b->choice.flags) & CCBPF_CHOICE_EXEMPT)
		HOLDS((order < 0) == !!(a->choice.flags & CCBPF_CHOICE_EXEMPT));
	else
		HOLDS(order < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text;
	struct json_object *docs[2] = { 0 };
	struct ccbpf_rule rules[2];
	int accepted = 0;

	if (top_fd < 0)
		make_cgroups();
	fuzz_begin();
	for (int i = 0; i < 2 && rest; i++) {
		struct rule_words words = { 0 };

		rest = words_of(rest, &words);
		output.json = words.force;
		if (parse(&words, &rules[i]))
			continue;
		accepted++;
		rules[i].id = i + 1;
		check_ranges(&words, &rules[i]);
		docs[i] = check_shown(&rules[i]);
	}
	if (accepted == 2)
		check_pair(rules, docs);
	json_object_put(docs[0]);
	json_object_put(docs[1]);
	fuzz_end();
	free(text);
	return 0;
}
