// SPDX-License-Identifier: GPL-2.0-only
/* The configuration of nf_red: see config.h. */
#include "aqm/config.h"
#include "out/errors.h"
#include "util/text.h"

#define PROBE 7 /* ours: 000111 */
#define NF_MIN 1000 /* 1 %, table 1 of the paper: 75 of 7500 packets */
#define NF_MIN_PACKETS 3 /* less is no queue, only who came together */
#define NF_MAX 50000 /* 50 %: 3750 */
#define STD_MIN 90667 /* 90.667 %: 6800 */
#define STD_MAX CCBPF_AQM_WHOLE
#define AVERAGE_PART 16 /* of the limit, in packets: see bpf/nf_red.bpf.c */
#define AVERAGE_SHIFT 9 /* at most: RED's 0.002 */
#define RATE_BPS 10000000 /* where nobody knows: tc's, for its red */
#define NS_PER_S 1000000000ULL

/* log2 of 1/AVERAGE_PART of the limit in packets, rounded */
static uint32_t default_shift(const struct ccbpf_aqm_config *config)
{
	uint64_t packets = config->limit_bytes / config->packet_bytes;
	uint32_t shift = 0;

	while (shift < AVERAGE_SHIFT && packets * 3 > (AVERAGE_PART * 4ULL << shift))
		shift++;
	return shift;
}

static uint32_t in_32_bits(uint64_t value)
{
	return value < UINT32_MAX ? value : UINT32_MAX;
}

static uint32_t packet_ns(uint32_t bytes, uint64_t rate_bps)
{
	return in_32_bits(bytes * (8 * NS_PER_S) / rate_bps ?: 1);
}

static int set_rate(const char *what, const char *string, struct ccbpf_aqm_config *config)
{
	uint64_t bps = 0;
	int err = aqm_parse_rate(what, string, &bps);

	if (!err && bps)
		config->packet_ns = packet_ns(config->packet_bytes, bps);
	return err;
}

/* The limit that is given, or the queue's own where that is to be read. */
static int set_limit(const char *what, const char *string, const struct device *device,
		     const struct aqm_queue *queue, bool read, struct ccbpf_aqm_config *config)
{
	if (string)
		return aqm_parse_limit(what, string, device, &config->limit_bytes);
	if (!read)
		return EXIT_OK;
	if (!queue->limit_bytes)
		return FAIL(
			EXIT_USAGE, .what = what, .on = "no --limit",
			.why = text("the limit of its queue (%s) cannot be read", queue->kind),
			.remedy =
				"give the size of the queue by `--limit SIZE`, for example the bytes that the link sends in 100 ms");
	config->limit_bytes = in_32_bits(queue->limit_bytes);
	return EXIT_OK;
}

void aqm_follow_device(const struct device *device, const struct qdiscs *all,
		       struct ccbpf_aqm_config *config)
{
	struct device then = *device;
	struct aqm_queue was, is;

	then.packet_bytes = config->packet_bytes;
	aqm_look_at_queue(&then, all, config->leaf, &was);
	aqm_look_at_queue(device, all, config->leaf, &is);
	if (config->limit_bytes == in_32_bits(was.limit_bytes))
		config->limit_bytes = in_32_bits(is.limit_bytes);
	if (then.packet_bytes)
		config->packet_ns = in_32_bits((uint64_t)config->packet_ns * device->packet_bytes /
					       then.packet_bytes);
	config->packet_bytes = device->packet_bytes;
}

/* 1/1000 %: where marks begin by default, in a small queue as well */
static uint32_t default_nf_min(const struct ccbpf_aqm_config *config)
{
	uint64_t bytes = (uint64_t)NF_MIN_PACKETS * config->packet_bytes;
	uint64_t part = config->limit_bytes ? bytes * CCBPF_AQM_WHOLE / config->limit_bytes : 0;

	return part < NF_MIN ? NF_MIN : part > NF_MAX ? NF_MAX : part;
}

static void set_defaults(struct ccbpf_aqm_config *config)
{
	config->packet_ns = packet_ns(config->packet_bytes, RATE_BPS);
	config->average_shift = default_shift(config);
	config->nf_min = default_nf_min(config);
	config->nf_max = NF_MAX;
	config->std_min = STD_MIN;
	config->std_max = STD_MAX;
	config->dscps[CCBPF_AQM_nf] = 1ULL << AQM_DSCP_LE;
	config->dscps[CCBPF_AQM_probe] = 1ULL << PROBE;
}

static int check_order(const char *what, enum aqm_option option, uint32_t min, uint32_t max)
{
	if (min <= max)
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = what, .on = aqm_option_names[option],
		    .why = text("marks would begin at %s %%, above their end at %s %%",
				aqm_percent(min), aqm_percent(max)),
		    .remedy = "give both, the smaller one first");
}

int aqm_configure(const char *what, const struct aqm_options *options, const struct device *device,
		  const struct aqm_queue *queue, bool fresh, struct ccbpf_aqm_config *config)
{
	const char *const *given = options->given;
	bool read = fresh || given[AQM_OPTION_CLASS]; /* what it says itself */
	int err;

	if (fresh)
		*config = (struct ccbpf_aqm_config){ .packet_bytes = device->packet_bytes };
	err = set_limit(what, given[AQM_OPTION_LIMIT], device, queue, read, config);
	if (!err && fresh)
		set_defaults(config);
	if (!err && read) {
		config->leaf = queue->leaf;
		if (queue->rate_bps)
			config->packet_ns = packet_ns(config->packet_bytes, queue->rate_bps);
	}
	if (!err)
		err = aqm_parse_part(what, AQM_OPTION_NF_MIN, given[AQM_OPTION_NF_MIN],
				     &config->nf_min);
	if (!err)
		err = aqm_parse_part(what, AQM_OPTION_NF_MAX, given[AQM_OPTION_NF_MAX],
				     &config->nf_max);
	if (fresh && !given[AQM_OPTION_NF_MIN] && config->nf_min > config->nf_max)
		config->nf_min = config->nf_max;
	if (!err)
		err = aqm_parse_std(what, given[AQM_OPTION_STD], config);
	if (!err)
		err = aqm_parse_dscps(what, options, config);
	if (!err)
		err = aqm_parse_average(what, given[AQM_OPTION_AVERAGE], config);
	if (!err)
		err = set_rate(what, given[AQM_OPTION_RATE], config);
	if (!err)
		err = check_order(what, AQM_OPTION_NF_MIN, config->nf_min, config->nf_max);
	if (!err)
		err = check_order(what, AQM_OPTION_STD, config->std_min, config->std_max);
	return err;
}
