// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parameters: KEY=VALUE of `ccbpf enable --set` and `ccbpf set`.
 *
 * The first line of an input names a controller, each further one is a KEY=VALUE.
 *
 *  1. They are accepted exactly if each is a key of the controller, given once, with a decimal number in
 *     its range; else one sentence says why.
 *  2. The values are those that were given, and the defaults.
 *  3. Text and JSON of the values give the same values when they are parsed again.
 */
#include <ctype.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "cc/params.h"
#include "frame.h"
#include "out/output.h"

#define WORDS_MOST 40

/* The index of the parameter that `word` gives, or -1; its value in *value. */
static int understand(const struct controller *c, const char *word, uint32_t *value)
{
	const char *equals = strchr(word, '=');
	uint64_t number = 0;

	if (!equals || !equals[1])
		return -1;
	for (const char *digit = equals + 1; *digit; digit++) {
		if (*digit < '0' || *digit > '9' || number > UINT32_MAX)
			return -1;
		number = 10 * number + (*digit - '0');
	}
	for (unsigned int i = 0; i < c->n_params; i++) {
		const struct param *param = &c->params[i];

		if (strlen(param->name) == (size_t)(equals - word) &&
		    !memcmp(param->name, word, equals - word)) {
			*value = number;
			return number >= param->min && number <= param->max ? (int)i : -1;
		}
	}
	return -1;
}

/* The same as settings_parse(). */
static bool understand_all(const struct controller *c, char **words, unsigned int n,
			   struct values *values)
{
	bool given[MAX_PARAMS] = { 0 };

	*values = values_default(c);
	for (unsigned int i = 0; i < n; i++) {
		uint32_t value;
		int at = understand(c, words[i], &value);

		if (at < 0 || given[at])
			return false;
		given[at] = true;
		values->v[at] = value;
	}
	return true;
}

static int parse(const struct controller *c, char **words, unsigned int n, struct values *values)
{
	struct settings settings;
	int code = settings_parse("set", c, words, n, &settings);

	fuzz_said(code);
	*values = values_default(c);
	if (!code)
		settings_apply(c, &settings, values);
	return code;
}

static void check_text(const struct controller *c, const struct values *values)
{
	char *copy = strdup(values_text(c, values)), *rest = copy, *words[MAX_PARAMS + 1];
	struct values again;
	unsigned int n = 0;

	while (*copy && n <= MAX_PARAMS && (words[n] = strsep(&rest, " ")))
		n++;
	HOLDS(!parse(c, words, n, &again) && !memcmp(values, &again, sizeof(again)));
	free(copy);
}

static void check_json(const struct controller *c, const struct values *values)
{
	struct json_object *all = values_json(c, values, false),
			   *changed = values_json(c, values, true), *value;

	fuzz_json(all);
	HOLDS((unsigned int)json_object_object_length(all) == c->n_params);
	for (unsigned int i = 0; i < c->n_params; i++) {
		const struct param *param = &c->params[i];

		HOLDS(json_object_object_get_ex(all, param->name, &value));
		HOLDS(json_object_get_int64(value) == values->v[i]);
		HOLDS(values->v[i] >= param->min && values->v[i] <= param->max);
		HOLDS(json_object_object_get_ex(changed, param->name, &value) ==
		      (values->v[i] != param->def));
	}
	json_object_put(all);
	json_object_put(changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text, *words[WORDS_MOST], *name;
	struct values values, wanted;
	const struct controller *c;
	unsigned int n = 0;
	bool good;

	fuzz_begin();
	name = strsep(&rest, "\n");
	c = controller_find(name);
	if (!c) {
		fuzz_said(controller_unknown("set", name));
		c = &controllers[size % n_controllers];
	}
	while (n < WORDS_MOST && (words[n] = strsep(&rest, "\n")))
		n += !!*words[n];
	output.json = size % 2;
	good = understand_all(c, words, n, &wanted);
	HOLDS(!parse(c, words, n, &values) == good);
	if (good) {
		HOLDS(!memcmp(&values, &wanted, sizeof(values)));
		check_text(c, &values);
		check_json(c, &values);
	}
	fuzz_end();
	free(text);
	return 0;
}
