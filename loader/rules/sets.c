// SPDX-License-Identifier: GPL-2.0-only
/* Standing rules as the program takes them: see sets.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "rules/sets.h"

static const struct ccbpf_prefix all_ipv6 = { 0 };
static const struct ccbpf_prefix all_ipv4 = { .bits = CCBPF_MAPPED_BITS,
					      .address = { [10] = 0xff, [11] = 0xff } };

static bool is_exempt(const struct ccbpf_rule *rule)
{
	return rule->choice.flags & CCBPF_CHOICE_EXEMPT;
}

static bool has_remote(const struct ccbpf_rule *rule)
{
	return rule->conditions & CCBPF_RULE_REMOTE;
}

/* 1 to 3, greater wins */
static unsigned int rank(const struct ccbpf_rule *rule)
{
	if (is_exempt(rule) && !has_remote(rule))
		return 1000;
	return 2 * (has_remote(rule) ? 1 + rule->remote.bits : 0) + is_exempt(rule);
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

static bool same_bits(const struct ccbpf_prefix *a, const struct ccbpf_prefix *b, unsigned int bits)
{
	unsigned int whole = bits / 8, rest = bits % 8;

	return !memcmp(a->address, b->address, whole) &&
	       (!rest || !((a->address[whole] ^ b->address[whole]) >> (8 - rest)));
}

static bool is_ipv4(const struct ccbpf_prefix *prefix)
{
	return prefix->bits >= CCBPF_MAPPED_BITS && same_bits(prefix, &all_ipv4, CCBPF_MAPPED_BITS);
}

/* Whether `outer` has all addresses of `inner`. ::/0 means IPv6 only. */
static bool covers(const struct ccbpf_prefix *outer, const struct ccbpf_prefix *inner)
{
	return outer->bits <= inner->bits && is_ipv4(outer) == is_ipv4(inner) &&
	       same_bits(outer, inner, outer->bits);
}

static int put(const struct bpf_object *obj, const char *map, const void *key, const void *value)
{
	int fd = bpf_object__find_map_fd_by_name(obj, map);

	return fd < 0 ? fd : bpf_map_update_elem(fd, key, value, BPF_ANY) ? -errno : 0;
}

static int put_prefix(const struct bpf_object *obj, const struct ccbpf_prefix *prefix,
		      const struct ccbpf_rule *rules, unsigned int n)
{
	struct ccbpf_rule_set set = { 0 };

	for (unsigned int i = 0; i < n; i++)
		if (!has_remote(&rules[i]) || covers(&rules[i].remote, prefix))
			add(&set, i);
	return put(obj, "prefixes", prefix, &set);
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
	int err = put_first(obj, rules, n);

	if (!err)
		err = put_prefix(obj, &all_ipv6, rules, n);
	if (!err)
		err = put_prefix(obj, &all_ipv4, rules, n);
	for (__u32 i = 0; !err && i < n; i++) {
		err = put(obj, "rules", &i, &rules[i]);
		if (!err && has_remote(&rules[i]))
			err = put_prefix(obj, &rules[i].remote, rules, n);
		if (!err && rules[i].conditions & (CCBPF_RULE_CGROUP | CCBPF_RULE_UNIT))
			err = put_cgroup(obj, &rules[i], rules, n);
	}
	return err;
}
