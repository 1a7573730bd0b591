// SPDX-License-Identifier: GPL-2.0-only
/* Standing rules as the program takes them: see sets.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "rules/prefixes.h"
#include "rules/sets.h"

static bool is_exempt(const struct ccbpf_rule *rule)
{
	return rule->choice.flags & CCBPF_CHOICE_EXEMPT;
}

/* 1 to 3, greater wins */
static unsigned int rank(const struct ccbpf_rule *rule)
{
	if (is_exempt(rule) && !rule_has_remote(rule))
		return 1000;
	return 2 * (rule_has_remote(rule) ? 1 + rule->remote.bits : 0) + is_exempt(rule);
}

int rule_order(const void *a, const void *b)
{
	const struct ccbpf_rule *x = a, *y = b;
	int more_x = __builtin_popcount(x->conditions), more_y = __builtin_popcount(y->conditions);

	if (rank(x) != rank(y))
		return rank(x) > rank(y) ? -1 : 1;
	if (more_x != more_y)
		return more_x > more_y ? -1 : 1;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void add(struct ccbpf_rule_set *set, unsigned int i)
{
	set->words[i / 64] |= 1ULL << i % 64;
	set->filled |= 1ULL << i / 64;
}

static int put(const struct bpf_object *obj, const char *map, const void *key, const void *value)
{
	int fd = bpf_object__find_map_fd_by_name(obj, map);

	return fd < 0 ? fd : bpf_map_update_elem(fd, key, value, BPF_ANY) ? -errno : 0;
}

static int put_entry(const struct bpf_object *obj, const struct ccbpf_prefix *entry,
		     const struct ccbpf_rule *rules, unsigned int n)
{
	struct ccbpf_rule_set set = { 0 };

	for (unsigned int i = 0; i < n; i++)
		if (!rule_has_remote(&rules[i]) || prefix_covers(&rules[i].remote, entry))
			add(&set, i);
	return put(obj, PREFIXES_MAP, entry, &set);
}

/* It, and its markers. Other prefixes may have the same ones: then they are there already. */
static int put_prefix(const struct bpf_object *obj, const struct ccbpf_prefix *prefix,
		      const struct ccbpf_rule_lengths *lengths, const struct ccbpf_rule *rules,
		      unsigned int n)
{
	int fd = bpf_object__find_map_fd_by_name(obj, PREFIXES_MAP), err = 0;
	struct prefix_path path = prefixes_path(lengths, prefix);
	struct ccbpf_rule_set there;

	for (unsigned int i = 0; !err && i < path.n; i++)
		if (bpf_map_lookup_elem(fd, &path.at[i], &there))
			err = put_entry(obj, &path.at[i], rules, n);
	return err;
}

static bool same_cgroup(const struct ccbpf_rule *a, const struct ccbpf_rule *b)
{
	__u32 kind = a->conditions & (CCBPF_RULE_CGROUP | CCBPF_RULE_UNIT);

	if (!(b->conditions & kind))
		return false;
	return kind == CCBPF_RULE_CGROUP ? a->cgroup_id == b->cgroup_id
					 : !strcmp(a->cgroup, b->cgroup);
}

static int put_cgroup(const struct bpf_object *obj, const struct ccbpf_rule *rule,
		      const struct ccbpf_rule *rules, unsigned int n)
{
	struct ccbpf_rule_set set = { 0 };

	for (unsigned int i = 0; i < n; i++)
		if (same_cgroup(rule, &rules[i]))
			add(&set, i);
	if (rule->conditions & CCBPF_RULE_CGROUP)
		return put(obj, "cgroup_ids", &rule->cgroup_id, &set);
	return put(obj, "cgroup_names", rule->cgroup, &set);
}

/* Those without a cgroup. */
static int put_first(const struct bpf_object *obj, const struct ccbpf_rule *rules, unsigned int n)
{
	struct ccbpf_rule_set first = { 0 };
	__u32 zero = 0;

	for (unsigned int i = 0; i < n; i++)
		if (!(rules[i].conditions & (CCBPF_RULE_CGROUP | CCBPF_RULE_UNIT)))
			add(&first, i);
	return put(obj, "looked_first", &zero, &first);
}

int sets_fill(const struct bpf_object *obj, const struct ccbpf_rule *rules, unsigned int n)
{
	struct ccbpf_rule_lengths lengths;
	int err = put_first(obj, rules, n);

	prefixes_lengths(rules, n, &lengths);
	if (!err)
		err = put_prefix(obj, &prefix_all_ipv6, &lengths, rules, n);
	if (!err)
		err = put_prefix(obj, &prefix_all_ipv4, &lengths, rules, n);
	for (__u32 i = 0; !err && i < n; i++) {
		err = put(obj, "rules", &i, &rules[i]);
		if (!err && rule_has_remote(&rules[i]))
			err = put_prefix(obj, &rules[i].remote, &lengths, rules, n);
		if (!err && rules[i].conditions & (CCBPF_RULE_CGROUP | CCBPF_RULE_UNIT))
			err = put_cgroup(obj, &rules[i], rules, n);
	}
	return err;
}
