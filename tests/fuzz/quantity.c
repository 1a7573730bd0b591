// SPDX-License-Identifier: GPL-2.0-only
/*
 * Quantities: the sizes, rates, percentages, DSCPs and classes of `ccbpf aqm`, the seconds of --for
 * and --watch, and numbers as a person sees them.
 *
 * A line of an input is an option and its argument: "limit 150K", "for 0.5", "human 12345678".
 *
 *  1. An argument is accepted exactly if it is one as it is understood here; else one sentence says
 *     why.
 *  2. Its value is the number that it means, in range.
 *  3. What is shown of it gives the same value when it is parsed again, or a number near it where
 *     only three digits are shown.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#define main ccbpf_main /* parse_seconds() is its own */
#include "main.c"
#undef main

#include "aqm/options.h"
#include "frame.h"
#include "out/human.h"

typedef unsigned __int128 u128;

#define DEVICE_PACKET 1514
#define MOST ((u128)1 << 80) /* above all limits; numbers end here */

/* Decimal digits; the rest in *rest. False: none. */
static bool digits(const char *word, u128 *number, const char **rest)
{
	const char *at = word;

	for (*number = 0; *at >= '0' && *at <= '9'; at++)
		*number = *number > MOST ? MOST : 10 * *number + (*at - '0');
	*rest = at;
	return at != word;
}

/* Digits, and one of "KMG" (or "kmg") for thousands. */
static bool scaled(const char *word, const char *scales, u128 *number)
{
	const char *rest, *scale;

	if (!digits(word, number, &rest))
		return false;
	if (!*rest)
		return true;
	scale = strchr(scales, *rest >= 'a' && *rest <= 'z' ? *rest - 32 : *rest);
	for (long i = scale ? scale - scales : -1; i >= 0; i--)
		*number *= 1000;
	return scale && !rest[1];
}

/* A parser's answer, which is said if it is an error. */
static bool accepted(int code)
{
	fuzz_said(code);
	return !code;
}

static void check_limit(const char *word)
{
	const struct device device = { .packet_bytes = DEVICE_PACKET };
	const char *rest;
	uint32_t value;
	u128 number;
	bool good = digits(word, &number, &rest) && !strcmp(rest, "p");

	if (good)
		number *= DEVICE_PACKET;
	else
		good = scaled(word, "KM", &number);
	good = good && number && number <= UINT32_MAX;
	HOLDS(accepted(aqm_parse_limit("aqm", word, &device, &value)) == good);
	HOLDS(!good || value == number);
}

static void check_rate(const char *word)
{
	u128 number;
	uint64_t bps = 0;
	bool good = scaled(word, "KMG", &number) && number && number <= UINT64_MAX;

	HOLDS(accepted(aqm_parse_rate("aqm", word, &bps)) == good);
	HOLDS(!good || bps == number);
}

/* "90.667" in thousandths */
static bool percent(const char *word, u128 *number)
{
	unsigned int decimals = 0;
	const char *rest;

	if (!digits(word, number, &rest) || (*rest && *rest++ != '.'))
		return false;
	for (; *rest >= '0' && *rest <= '9' && decimals < 3; decimals++)
		*number = 10 * *number + (*rest++ - '0');
	for (; decimals < 3; decimals++)
		*number *= 10;
	return !*rest && *number <= CCBPF_AQM_WHOLE;
}

static void check_part(const char *word)
{
	uint32_t value, again;
	u128 number;
	bool good = percent(word, &number);

	HOLDS(accepted(aqm_parse_part("aqm", AQM_OPTION_NF_MIN, word, &value)) == good);
	if (!good)
		return;
	HOLDS(value == number);
	HOLDS(accepted(aqm_parse_part("aqm", AQM_OPTION_NF_MIN, aqm_percent(value), &again)));
	HOLDS(again == value);
}

static void check_std(const char *word)
{
	struct ccbpf_aqm_config config = { 0 }, again = { 0 };

	if (!accepted(aqm_parse_std("aqm", word, &config)))
		return;
	if (!strcmp(word, "off")) {
		HOLDS(config.std_min == CCBPF_AQM_OFF && config.std_max == CCBPF_AQM_OFF);
		return;
	}
	HOLDS(config.std_min <= CCBPF_AQM_WHOLE && config.std_max <= CCBPF_AQM_WHOLE);
	word = text("%s,%s", aqm_percent(config.std_min), aqm_percent(config.std_max));
	HOLDS(accepted(aqm_parse_std("aqm", word, &again)));
	HOLDS(!memcmp(&config, &again, sizeof(again)));
}

static void check_average(const char *word)
{
	struct ccbpf_aqm_config config = { 0 };
	const char *rest;
	u128 number;
	bool good = digits(word, &number, &rest) && !*rest && number &&
		    number <= 1 << CCBPF_AQM_SHIFT_MOST && !(number & (number - 1));

	HOLDS(accepted(aqm_parse_average("aqm", word, &config)) == good);
	HOLDS(!good || (u128)1 << config.average_shift == number);
}

/* "1,8,46": one bit for each; false: something else. */
static bool dscps(const char *word, uint64_t *set)
{
	u128 number;

	for (*set = 0;; word++) {
		if (!digits(word, &number, &word) || number > 63 || (*word && *word != ','))
			return false;
		*set |= 1ULL << (unsigned int)number;
		if (!*word)
			return true;
	}
}

static void check_dscps(const char *nf, const char *probe)
{
	struct aqm_options options = {
		.given = { [AQM_OPTION_NF_DSCP] = nf, [AQM_OPTION_PROBE_DSCP] = probe }
	};
	struct ccbpf_aqm_config config = { .dscps = { [CCBPF_AQM_probe] = 1 << 7 } };
	uint64_t wanted = 0, probes = 1 << 7, le = 1 << AQM_DSCP_LE;
	bool good = (!nf || dscps(nf, &wanted)) && (!probe || dscps(probe, &probes));

	good = good && !(probes & (probes - 1)) && !(probes & le) && !(probes & wanted) &&
	       !(probe && strchr(probe, ','));
	HOLDS(accepted(aqm_parse_dscps("aqm", &options, &config)) == good);
	if (!good)
		return;
	HOLDS(config.dscps[CCBPF_AQM_probe] == probes);
	HOLDS(config.dscps[CCBPF_AQM_nf] == (nf ? wanted | le : 0));
}

static bool hexadecimal(const char *word, unsigned int *number, const char **rest)
{
	const char *at = word;

	for (*number = 0; isxdigit((unsigned char)*at) && *number <= 0xffff; at++)
		*number = 16 * *number + (*at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10);
	*rest = at;
	return at != word && *number && *number <= 0xffff;
}

static void check_class(const char *word)
{
	struct aqm_options options = { .given = { [AQM_OPTION_CLASS] = word } };
	unsigned int major, minor;
	const char *rest;
	uint32_t class;
	bool good = hexadecimal(word, &major, &rest) && *rest == ':' &&
		    hexadecimal(rest + 1, &minor, &rest) && !*rest;

	HOLDS(accepted(aqm_parse_class("aqm", &options, &class)) == good);
	HOLDS(!good || class == (major << 16 | minor));
}

static void check_seconds(const char *word)
{
	const struct request request = { .command = &cmd_trace };
	uint64_t ns = 0, again;
	char shown[32];

	if (!accepted(parse_seconds(&request, word, &ns)))
		return;
	HOLDS(ns >= SHORTEST_S * 1e9 && ns <= LONGEST_S * 1e9);
	snprintf(shown, sizeof(shown), "%llu.%09llu", (unsigned long long)ns / 1000000000,
		 (unsigned long long)ns % 1000000000);
	HOLDS(accepted(parse_seconds(&request, shown, &again)));
	HOLDS(again + 8 >= ns && ns + 8 >= again); /* a double has 53 bits */
}

/* "18.4 MB", "18.4M" */
static double scaled_back(const char *shown)
{
	static const char prefixes[] = "kMGTPE";
	char *end;
	double value = strtod(shown, &end);
	const char *prefix = NULL;

	end += *end == ' ';
	if (*end)
		prefix = strchr(prefixes, *end);
	return prefix ? value * pow(1000, prefix - prefixes + 1) : value;
}

static bool near(double shown, double number, double part)
{
	return fabs(shown - number) <= number * part + 1e-9;
}

static bool has_three_digits(const char *shown)
{
	unsigned int n = 0;

	for (; *shown; shown++)
		n += *shown >= '0' && *shown <= '9';
	return n && n <= 3;
}

static double age_back(const char *shown)
{
	char *end;
	double value = strtod(shown, &end);

	return value * (*end == 's' ? 1 : *end == 'm' ? 60 : *end == 'h' ? 3600 : 86400);
}

static void check_human(const char *word)
{
	uint64_t number = strtoull(word, NULL, 10);
	double ms = number / 1e3, s = number / 1e9;

	HOLDS(near(scaled_back(human_bps(number)), number, 0.0051));
	HOLDS(has_three_digits(human_bps(number)) && has_three_digits(human_bytes(number)));
	HOLDS(near(scaled_back(human_bytes(number)), number, 0.0051));
	HOLDS(fabs(strtod(human_ms(number), NULL) - ms) <=
	      (number < 99950 ? 0.051 : 0.51) + ms / 1e9);
	HOLDS(age_back(human_age(number)) <= s * 1.0001 + 1e-9 &&
	      age_back(human_age(number)) >= s * 0.5 - 1);
}

static const struct {
	const char *option;
	void (*check)(const char *word);
} checks[] = {
	{ "limit ", check_limit }, { "rate ", check_rate },   { "part ", check_part },
	{ "std ", check_std },	   { "class ", check_class }, { "average ", check_average },
	{ "for ", check_seconds }, { "human ", check_human },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *lines = fuzz_text(data, size), *rest = lines, *line;
	const char *nf = NULL, *probe = NULL;

	while ((line = strsep(&rest, "\n"))) {
		fuzz_begin();
		for (size_t i = 0; i < COUNT(checks); i++)
			if (!strncmp(line, checks[i].option, strlen(checks[i].option)))
				checks[i].check(line + strlen(checks[i].option));
		if (!strncmp(line, "nf-dscp ", 8))
			nf = line + 8;
		if (!strncmp(line, "probe-dscp ", 11))
			probe = line + 11;
		fuzz_end();
	}
	fuzz_begin();
	check_dscps(nf, probe);
	fuzz_end();
	free(lines);
	return 0;
}
