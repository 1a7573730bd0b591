// SPDX-License-Identifier: GPL-2.0-only
/* Parameters: see params.h. */
#include <bpf/bpf.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cc/params.h"
#include "out/errors.h"
#include "out/json.h"
#include "util/nearest.h"
#include "util/text.h"

static const char *key_list(const struct controller *c)
{
	static char list[512];

	*list = '\0';
	for (unsigned int i = 0; i < c->n_params; i++)
		append(list, sizeof(list), ", ", "%s", c->params[i].name);
	return list;
}

static int index_of(const struct controller *c, const char *key, size_t length)
{
	for (unsigned int i = 0; i < c->n_params; i++)
		if (strncmp(c->params[i].name, key, length) == 0 && !c->params[i].name[length])
			return i;
	return -1;
}

static const char *range_of(const struct param *param)
{
	return text("%s takes %u to %u %s, by default %u", param->name, param->min, param->max,
		    param->unit, param->def);
}

const char *param_range(const struct controller *c, const char *key)
{
	int i = index_of(c, key, strlen(key));

	return i < 0 ? NULL : range_of(&c->params[i]);
}

static int unknown_key(const char *what, const struct controller *c, const char *key)
{
	const char *near = nearest(key, &c->params[0].name, c->n_params, sizeof(c->params[0]));

	return FAIL(EXIT_USAGE, .what = what, .on = c->name,
		    .why = text("it has no parameter `%s`", key),
		    .remedy = text("%s%s%sits keys are %s", near ? "did you mean " : "", near ?: "",
				   near ? "? " : "", key_list(c)));
}

static int parse_one(const char *what, const struct controller *c, const char *string,
		     struct settings *out)
{
	const char *equals = strchr(string, '='), *number;
	unsigned long long value;
	char *end;
	int i;

	if (!equals || equals == string)
		return FAIL(EXIT_USAGE, .what = what, .on = c->name,
			    .why = text("`%s` is not key=value", string),
			    .remedy = text("its keys are %s", key_list(c)));
	i = index_of(c, string, equals - string);
	if (i < 0)
		return unknown_key(what, c, text("%.*s", (int)(equals - string), string));
	if (out->given[i])
		return FAIL(EXIT_USAGE, .what = what, .on = c->name,
			    .why = text("%s is given twice", c->params[i].name),
			    .remedy = "give it once");
	number = equals + 1;
	errno = 0;
	value = strtoull(number, &end, 10);
	if (!isdigit((unsigned char)*number) || *end)
		return FAIL(EXIT_USAGE, .what = what, .on = c->name,
			    .why = text("%s is not a whole number", string),
			    .remedy = range_of(&c->params[i]));
	if (errno || value < c->params[i].min || value > c->params[i].max)
		return FAIL(EXIT_USAGE, .what = what, .on = c->name,
			    .why = text("%s is out of range", string),
			    .remedy = range_of(&c->params[i]));
	out->values.v[i] = value;
	out->given[i] = true;
	return EXIT_OK;
}

int settings_parse(const char *what, const struct controller *c, char *const *strings,
		   unsigned int n, struct settings *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned int i = 0; i < n; i++) {
		int err = parse_one(what, c, strings[i], out);

		if (err)
			return err;
	}
	return EXIT_OK;
}

void settings_apply(const struct controller *c, const struct settings *settings,
		    struct values *values)
{
	for (unsigned int i = 0; i < c->n_params; i++)
		if (settings->given[i])
			values->v[i] = settings->values.v[i];
}

struct values values_default(const struct controller *c)
{
	struct values values = { 0 };

	for (unsigned int i = 0; i < c->n_params; i++)
		values.v[i] = c->params[i].def;
	return values;
}

size_t values_size(const struct controller *c)
{
	return c->n_params * sizeof(uint32_t);
}

int values_read(int fd, struct values *out)
{
	uint32_t zero = 0;

	memset(out, 0, sizeof(*out));
	return bpf_map_lookup_elem(fd, &zero, out->v) ? -errno : 0;
}

int values_write(int fd, const struct values *values)
{
	uint32_t zero = 0;

	return bpf_map_update_elem(fd, &zero, values->v, BPF_ANY) ? -errno : 0;
}

struct json_object *values_json(const struct controller *c, const struct values *values,
				bool changed)
{
	struct json_object *doc = json_object_new_object();

	for (unsigned int i = 0; i < c->n_params; i++)
		if (!changed || values->v[i] != c->params[i].def)
			add_number(doc, c->params[i].name, values->v[i]);
	return doc;
}

const char *values_text(const struct controller *c, const struct values *values)
{
	static char list[512];

	*list = '\0';
	for (unsigned int i = 0; i < c->n_params; i++)
		if (values->v[i] != c->params[i].def)
			append(list, sizeof(list), " ", "%s=%u", c->params[i].name, values->v[i]);
	return list;
}
