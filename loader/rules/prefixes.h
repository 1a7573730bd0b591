/* SPDX-License-Identifier: GPL-2.0-only */
/* The prefixes of standing rules, as the program searches them: see kern/rule_prefixes.bpf.h. */
#ifndef CCBPF_RULES_PREFIXES_H
#define CCBPF_RULES_PREFIXES_H

#include <bpf/libbpf.h>

#include "ccbpf/rule.h"

#define PREFIXES_MAP "prefixes"

/* The entries that the search for one prefix finds: its markers (beginnings of it), and then itself. */
struct prefix_path {
	struct ccbpf_prefix at[CCBPF_LENGTHS_STEPS];
	unsigned int n;
};

extern const struct ccbpf_prefix prefix_all_ipv6, prefix_all_ipv4;

/* Does `outer` have all addresses of `inner`? ::/0 means IPv6 only. */
bool prefix_covers(const struct ccbpf_prefix *outer, const struct ccbpf_prefix *inner);

bool rule_has_remote(const struct ccbpf_rule *rule);

/* The lengths of the rules' prefixes, of all IPv4 and of all IPv6. */
void prefixes_lengths(const struct ccbpf_rule *rules, unsigned int n,
		      struct ccbpf_rule_lengths *lengths);

/* `prefix` is of one of the lengths. */
struct prefix_path prefixes_path(const struct ccbpf_rule_lengths *lengths,
				 const struct ccbpf_prefix *prefix);

/* Tell a program that is not loaded yet which lengths there are, and make room for their entries. Returns an
 * exit code. */
int prefixes_prepare(const char *what, const struct bpf_object *obj, const struct ccbpf_rule *rules,
		     unsigned int n);

#endif
