// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many standing rules at once, by the loader's own functions: `ccbpf assign` adds one at a time.
 *
 *   many-rules CONTROLLER PREFIXES CGROUPS [FROM]
 *
 * CONTROLLER "not": connections that match keep their default. Rules for 127.77.0.0/16, for so many
 * prefixes behind 127.79.0.0, of eight lengths, and for as many cgroups that nobody is in. The search
 * for 127.77.0.1 asks for four lengths. With FROM the rule for 127.77.0.0/16 asks for that controller.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out/errors.h"
#include "rules/standing.h"
#include "sys/pins.h"
#include "util/text.h"

static void add(struct standing *standing, const char *controller, struct ccbpf_rule rule)
{
	if (!strcmp(controller, "not"))
		rule.choice.flags = CCBPF_CHOICE_EXEMPT;
	else
		snprintf(rule.choice.controller, sizeof(rule.choice.controller), "%s", controller);
	rule.choice.dscp = CCBPF_DSCP_KEEP;
	standing_add(standing, &rule);
}

int main(int argc, char **argv)
{
	struct ccbpf_rule rule = { .conditions = CCBPF_RULE_REMOTE };
	struct standing standing = { .link_fd = -1, .counts_fd = -1, .ruled_fd = -1 };
	int err = argc < 4 ? EXIT_USAGE : pins_lock_change("fill") ?: standing_read("fill", &standing);

	rule.remote = (struct ccbpf_prefix){
		.bits = 96 + 16, .address = { [10] = 0xff, [11] = 0xff, [12] = 127, [13] = 77 }
	};
	if (argc > 4) {
		rule.conditions |= CCBPF_RULE_FROM;
		snprintf(rule.from, sizeof(rule.from), "%s", argv[4]);
	}
	if (!err)
		add(&standing, argv[1], rule);
	rule.conditions = CCBPF_RULE_REMOTE;
	memset(rule.from, 0, sizeof(rule.from));
	for (int i = 0; !err && i < atoi(argv[2]); i++) {
		rule.remote.bits = 128 - i % 8;
		rule.remote.address[13] = 79 + (i >> 9);
		rule.remote.address[14] = i >> 1;
		rule.remote.address[15] = i << 7;
		add(&standing, argv[1], rule);
	}
	rule = (struct ccbpf_rule){ .conditions = CCBPF_RULE_CGROUP, .cgroup = "/nobody" };
	for (int i = 0; !err && i < atoi(argv[3]); i++) {
		rule.cgroup_id = 1ULL << 40 | i;
		add(&standing, argv[1], rule);
	}
	if (!err)
		err = standing_write("fill", &standing);
	standing_close(&standing);
	pins_unlock();
	text_release(NULL);
	return err;
}
