// SPDX-License-Identifier: GPL-2.0-only
/* The counters of the rules: see counts.h. */
#include <bpf/bpf.h>
#include <errno.h>

#include "rules/counts.h"

int counts_fill(int fd, const struct ccbpf_rule *rules, unsigned int n)
{
	struct ccbpf_choice_counts none = { 0 };
	int err = 0;

	for (unsigned int i = 0; !err && i < n; i++)
		if (bpf_map_update_elem(fd, &rules[i].id, &none, BPF_NOEXIST) && errno != EEXIST)
			err = -errno;
	return err;
}

static bool has_rule(const struct ccbpf_rule *rules, unsigned int n, __u32 id)
{
	for (unsigned int i = 0; i < n; i++)
		if (rules[i].id == id)
			return true;
	return false;
}

/* The ids of no rule, at most CCBPF_RULES_MOST: how many there are. */
static unsigned int find_stale(int fd, const struct ccbpf_rule *rules, unsigned int n,
			       __u32 stale[CCBPF_RULES_MOST])
{
	__u32 id, *previous = NULL;
	unsigned int found = 0;

	for (int i = 0; fd >= 0 && i < CCBPF_RULES_MOST; i++) {
		if (bpf_map_get_next_key(fd, previous, &id))
			break;
		if (!has_rule(rules, n, id))
			stale[found++] = id;
		previous = &id;
	}
	return found;
}

bool counts_are_stale(int fd, const struct ccbpf_rule *rules, unsigned int n)
{
	__u32 stale[CCBPF_RULES_MOST];

	return find_stale(fd, rules, n, stale);
}

void counts_drop(int fd, const struct ccbpf_rule *rules, unsigned int n)
{
	__u32 stale[CCBPF_RULES_MOST];
	unsigned int found = find_stale(fd, rules, n, stale);

	for (unsigned int i = 0; i < found; i++)
		bpf_map_delete_elem(fd, &stale[i]);
}
