// SPDX-License-Identifier: GPL-2.0-only
/* The file of `ccbpf apply`: see config.h. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "out/errors.h"
#include "util/memory.h"
#include "util/nearest.h"
#include "util/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A key that a table may have, and what it holds. */
struct key {
	const char *name;
	enum node_kind kind;
	enum node_kind or_kind; /* or this; the same: nothing else */
};

static const struct key top_keys[] = {
	{ "controller", NODE_TABLE, NODE_TABLE },
	{ "rule", NODE_ARRAY, NODE_ARRAY },
};
static const struct key controller_keys[] = {
	{ "set", NODE_TABLE, NODE_TABLE },
	{ "default", NODE_BOOL, NODE_BOOL },
	{ "ecn", NODE_BOOL, NODE_BOOL },
};
static const struct key rule_keys[] = {
	{ "controller", NODE_TEXT, NODE_TEXT },	   { "not", NODE_BOOL, NODE_BOOL },
	{ "force", NODE_BOOL, NODE_BOOL },	   { "cgroup", NODE_TEXT, NODE_TEXT },
	{ "remote", NODE_TEXT, NODE_TEXT },	   { "local-port", NODE_NUMBER, NODE_TEXT },
	{ "remote-port", NODE_NUMBER, NODE_TEXT }, { "netns", NODE_TEXT, NODE_TEXT },
	{ "dscp", NODE_TEXT, NODE_TEXT },	   { "download", NODE_BOOL, NODE_BOOL },
	{ "upload", NODE_BOOL, NODE_BOOL },	   { "from", NODE_TEXT, NODE_TEXT },
};

/* What a value is called in an error, and how it is written. */
static const struct {
	const char *name, *example;
} kinds[] = {
	[NODE_TABLE] = { "a table", "[%s] above its members" },
	[NODE_ARRAY] = { "a list of tables", "[[%s]] above each" },
	[NODE_TEXT] = { "a text", "%s = \"...\"" },
	[NODE_NUMBER] = { "a whole number", "%s = 1" },
	[NODE_BOOL] = { "true or false", "%s = true" },
	[NODE_OTHER] = { "a fraction, a date or a time", "" },
};

/* Where the next faults are. */
static void at(const struct config *config, unsigned int line)
{
	fault_place(config->path, line);
}

static int wrong(const char *what, const char *on, const char *why, const char *remedy)
{
	return FAIL(EXIT_USAGE, .what = what, .on = on, .why = why, .remedy = remedy);
}

/* "text(kinds[].example)", whose formats are all above. */
static const char *example(enum node_kind kind, const char *key)
{
	char *line = text("%s", kinds[kind].example), *end = strstr(line, "%s");

	return end ? text("%.*s%s%s", (int)(end - line), line, key, end + 2) : line;
}

static int check_kind(const char *what, const struct node *node, const struct key *key)
{
	if (node->kind == key->kind || node->kind == key->or_kind)
		return EXIT_OK;
	return wrong(what, node->key ?: key->name,
		     text("it must be %s%s%s", kinds[key->kind].name,
			  key->kind == key->or_kind ? "" : " or ",
			  key->kind == key->or_kind ? "" : kinds[key->or_kind].name),
		     text("write %s", example(key->kind, key->name)));
}

static const char *list_keys(const struct key *keys, unsigned int n)
{
	char *list = text("%*s", TEXT_MOST - 1, "");

	*list = '\0';
	for (unsigned int i = 0; i < n; i++)
		append(list, TEXT_MOST, ", ", "%s", keys[i].name);
	return list;
}

/* Check that a table has only these keys, with values of their kinds. */
static int check_keys(const char *what, const struct config *config, const struct node *table,
		      const struct key *keys, unsigned int n)
{
	int err = EXIT_OK;

	for (const struct node *node = table->first; !err && node; node = node->next) {
		const char *near = nearest(node->key, &keys[0].name, n, sizeof(keys[0]));
		unsigned int i = 0;

		while (i < n && strcmp(keys[i].name, node->key))
			i++;
		at(config, node->line);
		if (i < n)
			err = check_kind(what, node, &keys[i]);
		else
			err = wrong(what, text("`%s`", node->key), "there is no such key here",
				    near ? text("did you mean %s?", near)
					 : text("the keys are %s", list_keys(keys, n)));
	}
	return err;
}

static const struct node *member(const struct node *table, const char *key)
{
	for (const struct node *node = table->first; node; node = node->next)
		if (!strcmp(node->key, key))
			return node;
	return NULL;
}

/* The line of a key that is true, or 0. */
static unsigned int line_if_true(const struct node *table, const char *key)
{
	const struct node *node = member(table, key);

	return node && node->number ? node->line : 0;
}

/* A text, or a number as text, or NULL. */
static const char *word(const struct node *table, const char *key)
{
	const struct node *node = member(table, key);

	if (!node)
		return NULL;
	return node->kind == NODE_TEXT ? node->text : text("%lld", node->number);
}

static int find_controller(const char *what, const char *name, const struct controller **c)
{
	*c = controller_find(name);
	return *c ? EXIT_OK : controller_unknown(what, name);
}

static int parse_settings(const char *what, const struct config *config, const struct controller *c,
			  const struct node *set, struct values *values)
{
	struct settings settings;
	int err = EXIT_OK;

	for (const struct node *node = set->first; !err && node; node = node->next) {
		const char *range = param_range(c, node->key);
		char *setting = text("%s=%lld", node->key, node->number);

		at(config, node->line);
		if (range && node->kind != NODE_NUMBER)
			err = wrong(what, text("set.%s", node->key), "it must be a whole number",
				    range);
		else
			err = settings_parse(what, c, &setting, 1, &settings);
		if (!err)
			settings_apply(c, &settings, values);
	}
	return err;
}

static int parse_controller(const char *what, struct config *config, const struct node *node)
{
	const struct key section = { "controller.NAME", NODE_TABLE, NODE_TABLE };
	const struct controller *c = NULL;
	struct config_controller *out;
	const struct node *set;
	int err;

	at(config, node->line);
	err = find_controller(what, node->key, &c);
	if (!err)
		err = check_kind(what, node, &section);
	if (!err)
		err = check_keys(what, config, node, controller_keys, COUNT(controller_keys));
	if (err)
		return err;
	out = &config->controllers[c - controllers];
	*out = (struct config_controller){
		.line = node->line,
		.default_line = line_if_true(node, "default"),
		.ecn_line = line_if_true(node, "ecn"),
		.values = values_default(c),
	};
	at(config, out->ecn_line);
	if (out->ecn_line && !controller_wants_ecn(c))
		return wrong(what, "ecn", text("marks are not the signal of %s", c->name),
			     "leave it out, or take tcp_lp_ecn or nf_tcp");
	set = member(node, "set");
	return set ? parse_settings(what, config, c, set, &out->values) : EXIT_OK;
}

static int check_defaults(const char *what, const struct config *config)
{
	const struct config_controller *first = NULL;

	for (unsigned int i = 0; i < n_controllers; i++) {
		const struct config_controller *c = &config->controllers[i];

		if (c->default_line && first) {
			at(config, c->default_line);
			return wrong(what, "default",
				     text("line %u makes another controller the default",
					  first->default_line),
				     "only one can be it");
		}
		first = c->default_line ? c : first;
	}
	return EXIT_OK;
}

/* What fits together, as far as it is known without a look at the system. */
static int check_rule(const char *what, const struct config *config, const struct config_rule *rule,
		      const char *name)
{
	const struct node *dscp = member(rule->section, "dscp");
	const struct node *upload = member(rule->section, "upload");
	const char *why = rule_words_conflict(&rule->words, name);
	uint32_t number;

	at(config, rule->section->line);
	if (why)
		return wrong(what, rule->words.exempt ? "not" : "download", why,
			     rule->words.exempt
				     ? "leave these out, or `not`"
				     : "leave these out, or write upload = true as well");
	if (upload && !upload->number && !rule->words.download)
		return wrong(what, "upload", "then nothing of it is in the background",
			     "write download = true as well, or `not`");
	if (!rule->words.cgroup && !rule->words.remote && !rule->words.local_port &&
	    !rule->words.remote_port && !rule->words.netns && !rule->words.from)
		return wrong(
			what, "rule", "it has no condition",
			"write cgroup, remote, local-port, remote-port, netns or from; for all "
			"connections `default = true` in the controller's section");
	at(config, dscp ? dscp->line : 0);
	return rule_parse_dscp(what, rule->words.dscp, &number);
}

static int parse_rule(const char *what, struct config *config, const struct node *node)
{
	const struct key section = { "[rule]", NODE_TABLE, NODE_TABLE };
	struct config_rule *out = &config->rules[config->n_rules];
	const char *name;
	int err;

	at(config, node->line);
	err = check_kind(what, node, &section);
	if (!err)
		err = check_keys(what, config, node, rule_keys, COUNT(rule_keys));
	if (err)
		return err;
	name = word(node, "controller");
	*out = (struct config_rule){ .section = node, .controller = controller_background() };
	out->words = (struct rule_words){
		.cgroup = word(node, "cgroup"),
		.remote = word(node, "remote"),
		.local_port = word(node, "local-port"),
		.remote_port = word(node, "remote-port"),
		.netns = word(node, "netns"),
		.from = word(node, "from"),
		.dscp = word(node, "dscp"),
		.exempt = line_if_true(node, "not"),
		.force = line_if_true(node, "force"),
		.download = line_if_true(node, "download"),
		.upload = line_if_true(node, "upload"),
	};
	err = check_rule(what, config, out, name);
	if (err)
		return err;
	config->n_rules++;
	if (out->words.exempt || rule_words_only_receive(&out->words))
		out->controller = NULL;
	else if (name) {
		at(config, member(node, "controller")->line);
		err = find_controller(what, name, &out->controller);
	}
	return err;
}

static int parse_rules(const char *what, struct config *config, const struct node *list)
{
	unsigned int n = 0;
	int err = EXIT_OK;

	for (const struct node *node = list->first; node; node = node->next)
		n++;
	if (n > CCBPF_RULES_MOST) {
		at(config, list->line);
		return wrong(what, "rule", text("there are %u rules", n),
			     text("at most %u can be; larger prefixes need fewer",
				  CCBPF_RULES_MOST));
	}
	config->rules = must_alloc(n + 1, sizeof(*config->rules));
	for (const struct node *node = list->first; !err && node; node = node->next)
		err = parse_rule(what, config, node);
	return err;
}

int config_parse(const char *what, const char *bytes, size_t length, struct config *out)
{
	const struct node *section, *node;
	struct tree_error error;
	int err;

	out->tree = tree_parse(bytes, length, &error);
	at(out, out->tree ? 0 : error.line);
	if (!out->tree)
		return wrong(what, "it", error.why, "`ccbpf help apply` says where an example is");
	err = check_keys(what, out, out->tree, top_keys, COUNT(top_keys));
	section = member(out->tree, "controller");
	for (node = section ? section->first : NULL; !err && node; node = node->next)
		err = parse_controller(what, out, node);
	if (!err)
		err = check_defaults(what, out);
	section = member(out->tree, "rule");
	if (!err && section)
		err = parse_rules(what, out, section);
	return err;
}

static int compare(const char *what, const struct config *config, unsigned int n)
{
	const struct config_rule *rule = &config->rules[n];

	for (unsigned int i = 0; i < n; i++)
		if (rule_same_conditions(&config->rules[i].rule, &rule->rule))
			return wrong(what, rule_conditions_text(&rule->rule),
				     text("the rule of line %u has these conditions already",
					  config->rules[i].section->line),
				     "keep one of the two");
	return EXIT_OK;
}

/* One condition at a time, so that an error names its line. */
static int find_rule(const char *what, const struct config *config, struct config_rule *rule)
{
	static const struct {
		const char *key;
		size_t offset;
	} conditions[] = {
		{ "cgroup", offsetof(struct rule_words, cgroup) },
		{ "remote", offsetof(struct rule_words, remote) },
		{ "local-port", offsetof(struct rule_words, local_port) },
		{ "remote-port", offsetof(struct rule_words, remote_port) },
		{ "netns", offsetof(struct rule_words, netns) },
		{ "from", offsetof(struct rule_words, from) },
	};
	int err = EXIT_OK;

	for (unsigned int i = 0; !err && i < COUNT(conditions); i++) {
		const struct node *node = member(rule->section, conditions[i].key);
		struct rule_words one = rule->words;

		if (!node)
			continue;
		one.cgroup = one.remote = one.local_port = one.remote_port = one.netns = one.from =
			NULL;
		*(const char **)((char *)&one + conditions[i].offset) =
			*(const char **)((char *)&rule->words + conditions[i].offset);
		at(config, node->line);
		err = rule_parse(what, &one, &rule->rule);
	}
	at(config, rule->section->line);
	return err;
}

int config_find(const char *what, struct config *config)
{
	int err = EXIT_OK;

	for (unsigned int i = 0; !err && i < config->n_rules; i++) {
		struct config_rule *rule = &config->rules[i];

		err = find_rule(what, config, rule);
		if (!err && rule->controller)
			rule_give(&rule->rule, rule->controller->name, !rule->controller->open);
		rule->rule.place = CCBPF_PLACE_FILE + i;
		if (!err)
			err = compare(what, config, i);
	}
	return err;
}

void config_free(struct config *config)
{
	tree_free(config->tree);
	free(config->rules);
	config->tree = NULL;
	config->rules = NULL;
}
