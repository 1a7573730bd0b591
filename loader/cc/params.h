/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parameters: parsing and validation of key=value, and their values in the map
 * <name>/params.
 */
#ifndef CCBPF_LOADER_PARAMS_H
#define CCBPF_LOADER_PARAMS_H

#include <json-c/json.h>

#include "cc/controllers.h"

#define MAX_PARAMS 32

/*
 * The values of a controller's parameters, in the table's order: the layout of
 * its map.
 */
struct values {
	uint32_t v[MAX_PARAMS];
};

/* Some key=value, checked: only those that are `given`. */
struct settings {
	struct values values;
	bool given[MAX_PARAMS];
};

/*
 * Check n strings key=value against the table of `c`. Returns EXIT_OK, or
 * EXIT_USAGE after saying what is wrong: no key=value, an unknown key (the keys
 * are listed), no number, out of range (the range is printed), a key given
 * twice.
 */
int settings_parse(const char *what, const struct controller *c, char *const *strings,
		   unsigned int n, struct settings *out);

/* "delta takes 10 to 900 permille, by default 50"; NULL where the controller has no such parameter. */
const char *param_range(const struct controller *c, const char *key);

/* Put those that are given over `values`. */
void settings_apply(const struct controller *c, const struct settings *settings,
		    struct values *values);

/* The defaults of the table. */
struct values values_default(const struct controller *c);

/* Bytes of the map's value. */
size_t values_size(const struct controller *c);

/* Read or write the map behind `fd`. Return 0 or -errno. */
int values_read(int fd, struct values *out);
int values_write(int fd, const struct values *values);

/* {"name": value, …}; with `changed`, only those that differ from the default.
 */
struct json_object *values_json(const struct controller *c, const struct values *values,
				bool changed);

/*
 * "delta=100 smoothing=4", only those that differ from the default; "" where
 * none does. A static buffer.
 */
const char *values_text(const struct controller *c, const struct values *values);

#endif
