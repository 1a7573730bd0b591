// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prefixes: those of `ccbpf assign --remote`, of `ccbpf renice --dst`, and how sets of rules nest.
 *
 * An input has three lines: two prefixes and an address. Each is also understood here, as a number of
 * 128 bits.
 *
 *  1. Both commands accept a prefix exactly if it is one; renice refuses bits behind its length.
 *  2. Both have the same addresses in it as the number of 128 bits.
 *  3. It is shown as a prefix that is the same when it is parsed again.
 *  4. prefix_covers() says which of two has all addresses of the other; ::/0 has no IPv4.
 *  5. The search among the lengths of both ends at the prefix itself; each step before it is longer than
 *     the last, and a beginning of it.
 */
#include <arpa/inet.h>
#include <json-c/json.h>
#include <string.h>

#include "frame.h"
#include "renice/selection.h"
#include "rules/prefixes.h"
#include "rules/rule.h"

typedef unsigned __int128 u128;

#define MAPPED ((u128)0xffff << 32) /* ::ffff:0:0 */

struct oracle {
	u128 address;
	unsigned int bits; /* of 128 */
	bool good;
};

static u128 number_of(const uint8_t bytes[16])
{
	u128 number = 0;

	for (int i = 0; i < 16; i++)
		number = number << 8 | bytes[i];
	return number;
}

/* The first `bits` of 128. */
static u128 mask_of(unsigned int bits)
{
	return bits ? ~(u128)0 << (128 - bits) : 0;
}

/* Decimal digits up to the end; ~0: something else, or more than 999. */
static unsigned int digits_of(const char *word)
{
	unsigned int number = 0;

	if (!*word)
		return ~0u;
	for (; *word; word++) {
		if (*word < '0' || *word > '9' || number > 99)
			return ~0u;
		number = 10 * number + (*word - '0');
	}
	return number;
}

static struct oracle understand(const char *word)
{
	const char *slash = strchr(word, '/');
	char *address = strndup(word, slash ? (size_t)(slash - word) : strlen(word));
	struct oracle oracle = { 0 };
	uint8_t bytes[16];
	bool v4 = inet_pton(AF_INET, address, bytes) == 1;

	oracle.good = v4 || inet_pton(AF_INET6, address, bytes) == 1;
	free(address);
	if (!oracle.good)
		return oracle;
	oracle.address = v4 ? MAPPED | number_of(bytes) >> 96 : number_of(bytes);
	oracle.bits = slash ? digits_of(slash + 1) : v4 ? 32 : 128;
	oracle.good = oracle.bits <= (v4 ? 32 : 128);
	oracle.bits += v4 ? 96 : 0;
	return oracle;
}

static bool has(const struct oracle *prefix, u128 address)
{
	return !((prefix->address ^ address) & mask_of(prefix->bits));
}

static bool is_v4(const struct oracle *prefix)
{
	return prefix->bits >= 96 && prefix->address >> 32 == MAPPED >> 32;
}

static bool oracle_covers(const struct oracle *outer, const struct oracle *inner)
{
	return is_v4(outer) == is_v4(inner) && outer->bits <= inner->bits &&
	       has(outer, inner->address);
}

static void check_shown(const struct ccbpf_rule *rule)
{
	const struct ccbpf_choice_counts counts = { 0 };
	struct json_object *doc = rule_json(rule, &counts), *shown;
	struct ccbpf_rule again = { 0 };
	int code;

	HOLDS(json_object_object_get_ex(doc, "remote", &shown));
	code = rule_parse("assign", &(struct rule_words){ .remote = json_object_get_string(shown) },
			  &again);
	HOLDS(!code && rule_same_conditions(rule, &again));
	json_object_put(doc);
}

static bool check_rule(const char *word, const struct oracle *oracle, struct ccbpf_rule *rule)
{
	int code;

	*rule = (struct ccbpf_rule){ 0 };
	code = rule_parse("assign", &(struct rule_words){ .remote = word }, rule);
	fuzz_said(code);
	HOLDS(!code == oracle->good);
	if (code)
		return false;
	HOLDS(rule->conditions == CCBPF_RULE_REMOTE && rule->remote.bits == oracle->bits);
	HOLDS(number_of(rule->remote.address) == (oracle->address & mask_of(oracle->bits)));
	check_shown(rule);
	return true;
}

static void check_renice(const char *word, const struct oracle *oracle,
			 const struct oracle *address)
{
	struct selection selection;
	int code = selection_parse("renice", &(struct selection_words){ .to = "reno", .dst = word },
				   &selection);
	u128 prefix = number_of((const uint8_t *)selection.config.prefix),
	     mask = number_of((const uint8_t *)selection.config.mask);

	fuzz_said(code);
	HOLDS(!code == (oracle->good && !(oracle->address & ~mask_of(oracle->bits))));
	if (!code) {
		HOLDS(mask == mask_of(oracle->bits) && !(prefix & ~mask));
		HOLDS((selection.config.peer == CCBPF_RENICE_PEER_V4) == is_v4(oracle));
		if (address->good)
			HOLDS(((prefix ^ address->address) & mask) == 0 ==
			      has(oracle, address->address));
	}
	selection_free(&selection);
}

static void check_search(const struct ccbpf_rule rules[2])
{
	struct ccbpf_rule_lengths lengths;
	struct prefix_path path;

	prefixes_lengths(rules, 2, &lengths);
	for (int i = 0; i < 2; i++) {
		path = prefixes_path(&lengths, &rules[i].remote);
		HOLDS(path.n >= 1 && path.n <= CCBPF_LENGTHS_STEPS);
		HOLDS(!memcmp(&path.at[path.n - 1], &rules[i].remote, sizeof(path.at[0])));
		for (unsigned int j = 0; j + 1 < path.n; j++) {
			HOLDS(path.at[j].bits < path.at[j + 1].bits);
			HOLDS(!((number_of(path.at[j].address) ^
				 number_of(rules[i].remote.address)) &
				mask_of(path.at[j].bits)));
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text, *words[3];
	struct oracle oracles[3];
	struct ccbpf_rule rules[2];
	bool good[2];

	fuzz_begin();
	for (int i = 0; i < 3; i++) {
		words[i] = strsep(&rest, "\n") ?: "";
		oracles[i] = understand(words[i]);
	}
	for (int i = 0; i < 2; i++) {
		good[i] = check_rule(words[i], &oracles[i], &rules[i]);
		check_renice(words[i], &oracles[i], &oracles[2]);
	}
	if (good[0] && good[1]) {
		HOLDS(prefix_covers(&rules[0].remote, &rules[1].remote) ==
		      oracle_covers(&oracles[0], &oracles[1]));
		HOLDS(prefix_covers(&rules[0].remote, &rules[0].remote));
		check_search(rules);
		HOLDS(rule_same_conditions(&rules[0], &rules[1]) ==
		      (oracle_covers(&oracles[0], &oracles[1]) &&
		       oracle_covers(&oracles[1], &oracles[0])));
	}
	fuzz_end();
	free(text);
	return 0;
}
