// SPDX-License-Identifier: GPL-2.0-only
/* The prefixes of standing rules, as the program searches them: see prefixes.h. */
#include <string.h>

#include "out/errors.h"
#include "rules/prefixes.h"
#include "sys/objects.h"
#include "sys/prefix.h"

const struct ccbpf_prefix prefix_all_ipv6 = { 0 };
const struct ccbpf_prefix prefix_all_ipv4 = { .bits = CCBPF_MAPPED_BITS,
					      .address = { [10] = 0xff, [11] = 0xff } };

bool rule_has_remote(const struct ccbpf_rule *rule)
{
	return rule->conditions & CCBPF_RULE_REMOTE;
}

static bool begins_with(const struct ccbpf_prefix *prefix, const struct ccbpf_prefix *beginning)
{
	unsigned int bits = beginning->bits, whole = bits / 8, rest = bits % 8;

	return prefix->bits >= bits && !memcmp(prefix->address, beginning->address, whole) &&
	       (!rest || !((prefix->address[whole] ^ beginning->address[whole]) >> (8 - rest)));
}

bool prefix_covers(const struct ccbpf_prefix *outer, const struct ccbpf_prefix *inner)
{
	return begins_with(inner, outer) &&
	       begins_with(outer, &prefix_all_ipv4) == begins_with(inner, &prefix_all_ipv4);
}

void prefixes_lengths(const struct ccbpf_rule *rules, unsigned int n,
		      struct ccbpf_rule_lengths *lengths)
{
	static const struct ccbpf_prefix ones = { .address = { [0 ... 15] = 0xff } };
	bool there[CCBPF_LENGTHS_MOST] = { [0] = true, [CCBPF_MAPPED_BITS] = true };
	struct ccbpf_prefix mask;

	for (unsigned int i = 0; i < n; i++)
		if (rule_has_remote(&rules[i]))
			there[rules[i].remote.bits] = true;
	lengths->n = 0;
	for (unsigned int bits = 0; bits < CCBPF_LENGTHS_MOST; bits++) {
		if (!there[bits])
			continue;
		mask = prefix_cut(&ones, bits);
		lengths->at[lengths->n].bits = bits;
		memcpy(lengths->at[lengths->n].mask, mask.address, sizeof(mask.address));
		lengths->n++;
	}
}

struct prefix_path prefixes_path(const struct ccbpf_rule_lengths *lengths,
				 const struct ccbpf_prefix *prefix)
{
	/* The same way as that of rules_to() in kern/rule_prefixes.bpf.h. */
	unsigned int from = 0, to = lengths->n, at, bits;
	struct prefix_path path = { .n = 0 };

	while (from < to && path.n < CCBPF_LENGTHS_STEPS) {
		at = (from + to) / 2;
		bits = lengths->at[at].bits;
		if (bits <= prefix->bits) {
			path.at[path.n++] = prefix_cut(prefix, bits);
			from = at + 1;
		} else {
			to = at;
		}
		if (bits == prefix->bits)
			break;
	}
	return path;
}

int prefixes_prepare(const char *what, const struct bpf_object *obj, const struct ccbpf_rule *rules,
		     unsigned int n)
{
	struct ccbpf_rule_lengths lengths = { 0 };
	struct bpf_map *there, *entries;
	unsigned int most;
	int err = object_map(what, obj, ".rodata.lengths", sizeof(lengths), &there)
			  ?: object_map(what, obj, PREFIXES_MAP, sizeof(struct ccbpf_rule_set),
					&entries);

	if (err)
		return err;
	prefixes_lengths(rules, n, &lengths);
	memcpy(object_initial(there), &lengths, sizeof(lengths));
	most = prefixes_path(&lengths, &prefix_all_ipv6).n +
	       prefixes_path(&lengths, &prefix_all_ipv4).n;
	for (unsigned int i = 0; i < n; i++)
		if (rule_has_remote(&rules[i]))
			most += prefixes_path(&lengths, &rules[i].remote).n;
	bpf_map__set_max_entries(entries, most);
	return EXIT_OK;
}
