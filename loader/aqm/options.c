// SPDX-License-Identifier: GPL-2.0-only
/* The options of `ccbpf aqm`: see options.h. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aqm/options.h"
#include "out/errors.h"
#include "util/text.h"

const char *const aqm_option_names[AQM_OPTION_COUNT] = {
#define X(id, name, argument, text) "--" name,
	AQM_OPTIONS(X)
#undef X
};

const char *aqm_percent(uint32_t part)
{
	char *number = text("%u.%03u", part / 1000, part % 1000);
	size_t length = strlen(number);

	while (number[length - 1] == '0')
		number[--length] = '\0';
	if (number[length - 1] == '.')
		number[--length] = '\0';
	return number;
}

static int bad(const char *what, enum aqm_option option, const char *string, const char *why,
	       const char *remedy)
{
	return FAIL(EXIT_USAGE, .what = what, .on = aqm_option_names[option],
		    .why = text("`%s` is not %s", string, why), .remedy = remedy);
}

/* A whole number and what stands behind it. */
static bool parse_number(const char *string, uint64_t *out, const char **rest)
{
	char *end;

	errno = 0;
	*out = strtoull(string, &end, 10);
	*rest = end;
	return isdigit((unsigned char)*string) && !errno;
}

/* `scales` stand for a thousand, a million, ... */
static bool parse_scaled(const char *string, const char *scales, uint64_t *out)
{
	const char *rest, *scale;
	uint64_t value;

	if (!parse_number(string, &value, &rest))
		return false;
	if (*rest) {
		scale = strchr(scales, toupper((unsigned char)*rest));
		if (!scale || rest[1])
			return false;
		for (; scale >= scales; scale--)
			if (__builtin_mul_overflow(value, 1000, &value))
				return false;
	}
	*out = value;
	return true;
}

int aqm_parse_limit(const char *what, const char *string, const struct device *device,
		    uint32_t *out)
{
	const char *rest;
	uint64_t value;
	bool ok = parse_number(string, &value, &rest);

	if (ok && strcmp(rest, "p") == 0)
		ok = !__builtin_mul_overflow(value, device->packet_bytes, &value);
	else
		ok = ok && parse_scaled(string, "KM", &value);
	if (!ok || !value || value > UINT32_MAX)
		return bad(what, AQM_OPTION_LIMIT, string, "a size from 1 byte to 4 GB",
			   "give bytes, or 150K, 2M, 100p");
	*out = value;
	return EXIT_OK;
}

/* "90.667" up to `end`, to 1/1000 % */
static bool parse_percent(const char *string, const char *end, uint32_t *out)
{
	uint32_t unit = 1000, value = 0;
	const char *c = string;

	for (; c < end && isdigit((unsigned char)*c) && value <= 100; c++)
		value = value * 10 + (*c - '0');
	value *= 1000;
	if (c == string || (c < end && *c++ != '.'))
		return false;
	for (; c < end && isdigit((unsigned char)*c) && unit > 1; c++)
		value += (unit /= 10) * (*c - '0');
	*out = value;
	return c == end && value <= CCBPF_AQM_WHOLE;
}

#define A_PERCENT "a percentage from 0 to 100 with at most 3 decimals"

int aqm_parse_part(const char *what, enum aqm_option option, const char *string, uint32_t *out)
{
	if (!string || parse_percent(string, string + strlen(string), out))
		return EXIT_OK;
	return bad(what, option, string, A_PERCENT, "for example 1 or 90.667");
}

int aqm_parse_std(const char *what, const char *string, struct ccbpf_aqm_config *config)
{
	const char *comma = string ? strchr(string, ',') : NULL;

	if (!string)
		return EXIT_OK;
	if (strcmp(string, "off") == 0) {
		config->std_min = config->std_max = CCBPF_AQM_OFF;
		return EXIT_OK;
	}
	if (comma && parse_percent(string, comma, &config->std_min) &&
	    parse_percent(comma + 1, comma + strlen(comma), &config->std_max))
		return EXIT_OK;
	return bad(what, AQM_OPTION_STD, string, "off, nor two times " A_PERCENT,
		   "for example 90.667,100 or off");
}

static int parse_dscp(const char *what, enum aqm_option option, const char *string,
		      const char **rest, uint8_t *out)
{
	uint64_t value;

	if (!parse_number(string, &value, rest) || value >= CCBPF_AQM_DSCPS ||
	    (**rest && **rest != ','))
		return bad(what, option, string, "a DSCP from 0 to 63",
			   "for example 1 (LE) or 8 (CS1)");
	*out = value;
	return EXIT_OK;
}

/* The one of probes; `probes` is left alone where it is not given. */
static int parse_probe_dscp(const char *what, const char *string, __u64 *probes)
{
	const char *rest;
	uint8_t dscp;
	int err;

	if (!string)
		return EXIT_OK;
	err = parse_dscp(what, AQM_OPTION_PROBE_DSCP, string, &rest, &dscp);
	if (!err && *rest)
		err = bad(what, AQM_OPTION_PROBE_DSCP, string, "one DSCP", "give one");
	if (!err)
		*probes = 1ULL << dscp;
	return err;
}

int aqm_parse_dscps(const char *what, const struct aqm_options *options,
		    struct ccbpf_aqm_config *config)
{
	const char *list = options->given[AQM_OPTION_NF_DSCP], *rest;
	__u64 *nf = &config->dscps[CCBPF_AQM_nf], *probes = &config->dscps[CCBPF_AQM_probe];
	uint8_t dscp;
	int err = parse_probe_dscp(what, options->given[AQM_OPTION_PROBE_DSCP], probes);

	if (err)
		return err;
	if (list)
		*nf = 1ULL << AQM_DSCP_LE;
	for (; list; list = *rest ? rest + 1 : NULL) {
		err = parse_dscp(what, AQM_OPTION_NF_DSCP, list, &rest, &dscp);
		if (err)
			return err;
		if (*probes >> dscp & 1)
			return FAIL(EXIT_USAGE, .what = what,
				    .on = aqm_option_names[AQM_OPTION_NF_DSCP],
				    .why = text("%u is the DSCP of probes", dscp),
				    .remedy = "`--probe-dscp` gives them "
					      "another");
		*nf |= 1ULL << dscp;
	}
	if (*probes >> AQM_DSCP_LE & 1)
		return FAIL(EXIT_USAGE, .what = what, .on = aqm_option_names[AQM_OPTION_PROBE_DSCP],
			    .why = "1 is LE, which is always of class nf",
			    .remedy = "give probes another");
	*nf &= ~*probes; /* a new probe-dscp may have been one of its */
	return EXIT_OK;
}

/* One half of a class, hexadecimal from 1 to ffff, and the character behind it. */
static bool parse_half(const char **at, char behind, uint32_t *out)
{
	size_t digits = strspn(*at, "0123456789abcdefABCDEF");
	unsigned long value = strtoul(*at, NULL, 16);

	if ((*at)[digits] != behind || !value || value > 0xffff)
		return false;
	*at += digits + 1;
	*out = value;
	return true;
}

int aqm_parse_class(const char *what, const struct aqm_options *options, uint32_t *out)
{
	const char *string = options->given[AQM_OPTION_CLASS], *rest = string;
	uint32_t major, minor;

	*out = 0;
	if (!string)
		return EXIT_OK;
	if (!parse_half(&rest, ':', &major) || !parse_half(&rest, '\0', &minor))
		return bad(what, AQM_OPTION_CLASS, string, "a class",
			   "for example 1:10, as tc has them");
	*out = major << 16 | minor;
	return EXIT_OK;
}

int aqm_parse_average(const char *what, const char *string, struct ccbpf_aqm_config *config)
{
	const char *rest;
	uint64_t value;

	if (!string)
		return EXIT_OK;
	if (!parse_number(string, &value, &rest) || *rest || !value || value & (value - 1) ||
	    value > 1 << CCBPF_AQM_SHIFT_MOST)
		return bad(what, AQM_OPTION_AVERAGE, string, "a power of 2 from 1 to 32768",
			   "for example 512, RED's; 1: no average");
	config->average_shift = __builtin_ctzll(value);
	return EXIT_OK;
}

int aqm_parse_rate(const char *what, const char *string, uint64_t *bps)
{
	if (!string || (parse_scaled(string, "KMG", bps) && *bps))
		return EXIT_OK;
	return bad(what, AQM_OPTION_RATE, string, "a rate in bit/s", "for example 10M");
}
