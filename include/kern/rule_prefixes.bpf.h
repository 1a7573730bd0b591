/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of a remote address, for bpf/assign.bpf.c: those whose prefix contains it, and those without
 * a prefix. It is found by binary search on prefix lengths (Waldvogel, Varghese, Turner, Plattner,
 * "Scalable High Speed IP Routing Lookups", SIGCOMM 1997): one look-up in a hash table for each step, at
 * most 8. In a trie each branch on the way is a cache miss.
 *
 *   lengths       the lengths of all prefixes, in ascending order
 *   prefixes      a prefix of such a length -> the rules whose prefix contains all of it, and those
 *                 without a prefix
 *
 * A step looks up the address, cut to the length in the middle. If there is an entry, the search goes on
 * among longer lengths, else among shorter ones. So that it goes on to a longer prefix, the loader also
 * enters markers: the beginnings of that prefix, at the lengths where the search must go on to longer
 * ones (loader/rules/prefixes.c). A marker has the rules of all prefixes around it, as every entry has.
 * All of IPv4 and all of IPv6 are always there. The last entry that was found is the longest.
 */
#ifndef CCBPF_KERN_RULE_PREFIXES_BPF_H
#define CCBPF_KERN_RULE_PREFIXES_BPF_H

#include "ccbpf/rule.h"
#include "kern/socket.bpf.h"

const volatile struct ccbpf_rule_lengths lengths SEC(".rodata.lengths") = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* the loader says how many */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ccbpf_prefix);
	__type(value, struct ccbpf_rule_set);
} prefixes SEC(".maps");

/* The entry of the address, cut to length number @at. */
static __always_inline struct ccbpf_rule_set *look_at(const u32 *address, u32 at)
{
	struct ccbpf_prefix key;
	u32 part;

	key.bits = lengths.at[at].bits;
	for (int i = 0; i < 4; i++) {
		part = address[i] & lengths.at[at].mask[i];
		__builtin_memcpy(key.address + 4 * i, &part, sizeof(part));
	}
	return bpf_map_lookup_elem(&prefixes, &key);
}

/* NULL only where the loader has entered nothing. */
static __always_inline struct ccbpf_rule_set *rules_to(struct sock *sk)
{
	struct ccbpf_rule_set *longest = NULL, *found;
	u32 address[4], from = 0, to = lengths.n, at;

	sock_peer(&sk->__sk_common, address);
	for (int i = 0; i < CCBPF_LENGTHS_STEPS && from < to; i++) {
		at = (from + to) / 2;
		if (at >= CCBPF_LENGTHS_MOST)
			break;
		found = look_at(address, at);
		if (found) {
			longest = found;
			from = at + 1;
		} else {
			to = at;
		}
	}
	return longest;
}

#endif
