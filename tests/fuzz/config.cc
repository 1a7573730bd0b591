// SPDX-License-Identifier: GPL-2.0-only
/*
 * The file of `ccbpf apply`: an input is what it holds.
 *
 *  1. What is refused is refused in one sentence with a remedy.
 *  2. What is accepted has controllers with parameters in their ranges, at most one default, and rules
 *     with a condition each.
 *
 * Nothing of the system is looked at: cgroups and network namespaces are found by config_find(), which
 * is not called.
 */
#include "frame.h"

extern "C" {
#include "config/config.h"
#include "out/errors.h"
}

static void check_controllers(const struct config &config)
{
	unsigned int defaults = 0;

	for (unsigned int i = 0; i < n_controllers; i++) {
		const struct config_controller &section = config.controllers[i];
		const struct controller &c = controllers[i];

		defaults += section.default_line != 0;
		for (unsigned int j = 0; section.line && j < c.n_params; j++) {
			HOLDS(section.values.v[j] >= c.params[j].min);
			HOLDS(section.values.v[j] <= c.params[j].max);
		}
		HOLDS(!section.ecn_line || controller_wants_ecn(&c));
	}
	HOLDS(defaults <= 1);
}

static void check_rules(const struct config &config)
{
	for (unsigned int i = 0; i < config.n_rules; i++) {
		const struct rule_words &words = config.rules[i].words;

		HOLDS(words.cgroup || words.remote || words.local_port || words.remote_port ||
		      words.netns || words.from);
		HOLDS(!config.rules[i].controller ==
		      (words.exempt || rule_words_only_receive(&words)));
		HOLDS(!words.exempt || !words.download);
	}
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct config config = {};
	int code;

	fuzz_begin();
	config.path = "fuzz.toml";
	code = config_parse("apply", text, size, &config);
	fuzz_said(code);
	if (!code) {
		check_controllers(config);
		check_rules(config);
	}
	config_free(&config);
	fault_place(nullptr, 0);
	fuzz_end();
	free(text);
	return 0;
}
