// SPDX-License-Identifier: GPL-2.0-only
/* What nf_red is told: see aqmconf.h. */
#include <ctype.h>
#include <errno.h>
#include <linux/pkt_sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aqmconf.h"
#include "errors.h"

#define LE 1 /* DSCP of RFC 8622 */
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

static const char *const names[] = {
#define X(id, name, argument, text) "--" name,
	AQM_OPTIONS(X)
#undef X
};

/* --- the queue ------------------------------------------------------------- */

static uint64_t limit_of(const struct qdisc *q, const struct device *device)
{
	return (uint64_t)q->limit *
	       (q->limit_in_packets ? device->packet_bytes : 1);
}

static bool is_child(const struct qdisc *q, const struct qdisc *parent)
{
	return q != parent && q->parent != TC_H_ROOT &&
	       TC_H_MAJ(q->parent) == TC_H_MAJ(parent->handle);
}

/* mq: the sum over its children, if all of them have one. */
static uint64_t limit_of_children(const struct qdiscs *all,
				  const struct qdisc *mq,
				  const struct device *device)
{
	uint64_t sum = 0, its;

	for (unsigned int i = 0; i < all->n; i++) {
		const struct qdisc *q = &all->q[i];

		if (!is_child(q, mq))
			continue;
		its = limit_of(q, device);
		if (!its)
			return 0;
		sum += its;
	}
	return sum;
}

/* htb: the class without which nothing is queued. */
static uint32_t only_class(const struct qdiscs *all, const struct qdisc *htb)
{
	const struct qdisc *found = NULL;

	if (htb->default_class && qdisc_under(all, htb->default_class))
		return htb->default_class;
	for (unsigned int i = 0; i < all->n; i++) {
		if (!is_child(&all->q[i], htb))
			continue;
		if (found)
			return 0;
		found = &all->q[i];
	}
	return found ? found->parent : 0;
}

/* The kernel does not count what waits in a queue without a lock: pfifo_fast, as
 * the root or under mq. */
static bool is_lock_free(const struct qdiscs *all, const struct qdisc *root)
{
	bool is_mq = strcmp(root->kind, "mq") == 0;

	for (unsigned int i = 0; i < all->n; i++) {
		const struct qdisc *q = &all->q[i];

		if ((q == root || (is_mq && is_child(q, root))) &&
		    strcmp(q->kind, "pfifo_fast") == 0)
			return true;
	}
	return false;
}

static void look_at_class(const struct device *device, const struct qdiscs *all,
			  uint32_t classid, struct aqm_queue *out)
{
	const struct qdisc *leaf = qdisc_under(all, classid);

	if (out->leaf) {
		out->backlog_bytes = leaf ? leaf->backlog_bytes : 0;
		snprintf(out->kind, sizeof(out->kind), "%s",
			 leaf ? leaf->kind : "");
	}
	if (!leaf)
		return;
	out->limit_bytes = limit_of(leaf, device);
	out->rate_bps = class_rate_bps(device->ifindex, classid);
}

void aqm_look_at_queue(const struct device *device, const struct qdiscs *all,
		       uint32_t leaf, struct aqm_queue *out)
{
	const struct qdisc *root = qdisc_under(all, TC_H_ROOT);

	*out = (struct aqm_queue){ .root = root, .leaf = leaf };
	if (!root)
		return;
	snprintf(out->kind, sizeof(out->kind), "%s", root->kind);
	out->lock_free = is_lock_free(all, root);
	out->backlog_bytes = root->backlog_bytes;
	if (leaf) {
		look_at_class(device, all, leaf, out);
	} else if (strcmp(root->kind, "htb") == 0) {
		look_at_class(device, all, only_class(all, root), out);
	} else if (strcmp(root->kind, "mq") == 0) {
		out->limit_bytes = limit_of_children(all, root, device);
	} else {
		out->limit_bytes = limit_of(root, device);
		out->rate_bps = root->rate_bps;
	}
	if (!out->rate_bps)
		out->rate_bps = device->rate_bps;
}

int aqm_find_queue(const char *what, const struct device *device,
		   const struct qdiscs *all, uint32_t leaf,
		   struct aqm_queue *out)
{
	const char *remedy = text(
		"give it one that does: `tc qdisc replace dev %s root bfifo limit BYTES`, or tbf, htb",
		device->name);

	aqm_look_at_queue(device, all, leaf, out);
	if (!out->root || strcmp(out->kind, "noqueue") == 0)
		return FAIL(
			EXIT_FAILED, .what = what, .on = device->name,
			.why = "it has no queue (noqueue): nothing ever waits there",
			.remedy = remedy);
	if (out->lock_free)
		return FAIL(
			EXIT_FAILED, .what = what, .on = device->name,
			.why = "its queue, pfifo_fast, has no lock and does not tell what waits",
			.remedy = remedy);
	if (leaf && !qdisc_under(all, leaf))
		return FAIL(EXIT_FAILED, .what = what, .on = device->name,
			    .why = text("it has no queue under class %s",
					aqm_classid(leaf)),
			    .remedy = text("`tc qdisc show dev %s` shows them",
					   device->name));
	return EXIT_OK;
}

/* --- words and numbers ----------------------------------------------------- */

const char *aqm_percent(uint32_t part)
{
	char *number = (char *)text("%u.%03u", part / 1000, part % 1000);
	size_t length = strlen(number);

	while (number[length - 1] == '0')
		number[--length] = '\0';
	if (number[length - 1] == '.')
		number[--length] = '\0';
	return number;
}

const char *aqm_classid(uint32_t classid)
{
	return text("%x:%x", classid >> 16, classid & 0xffff);
}

static int bad(const char *what, enum aqm_option option, const char *string,
	       const char *why, const char *remedy)
{
	return FAIL(EXIT_USAGE, .what = what, .on = names[option],
		    .why = text("`%s` is not %s", string, why),
		    .remedy = remedy);
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

static int parse_limit(const char *what, const char *string,
		       const struct device *device, uint32_t *out)
{
	const char *rest;
	uint64_t value;
	bool ok = parse_number(string, &value, &rest);

	if (ok && strcmp(rest, "p") == 0)
		ok = !__builtin_mul_overflow(value, device->packet_bytes,
					     &value);
	else
		ok = ok && parse_scaled(string, "KM", &value);
	if (!ok || !value || value > UINT32_MAX)
		return bad(what, AQM_OPTION_LIMIT, string,
			   "a size from 1 byte to 4 GB",
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

static int parse_part(const char *what, enum aqm_option option,
		      const char *string, uint32_t *out)
{
	if (!string || parse_percent(string, string + strlen(string), out))
		return EXIT_OK;
	return bad(what, option, string, A_PERCENT, "for example 1 or 90.667");
}

static int parse_std(const char *what, const char *string,
		     struct ccbpf_aqm_config *config)
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
	return bad(what, AQM_OPTION_STD, string,
		   "off, nor two times " A_PERCENT,
		   "for example 90.667,100 or off");
}

static int parse_dscp(const char *what, enum aqm_option option,
		      const char *string, const char **rest, uint8_t *out)
{
	uint64_t value;

	if (!parse_number(string, &value, rest) || value >= CCBPF_AQM_DSCPS ||
	    (**rest && **rest != ','))
		return bad(what, option, string, "a DSCP from 0 to 63",
			   "for example 1 (LE) or 8 (CS1)");
	*out = value;
	return EXIT_OK;
}

static int parse_dscps(const char *what, const struct aqm_options *options,
		       struct ccbpf_aqm_config *config)
{
	const char *list = options->given[AQM_OPTION_NF_DSCP],
		   *probe = options->given[AQM_OPTION_PROBE_DSCP], *rest;
	__u64 *nf = &config->dscps[CCBPF_AQM_nf],
	      *probes = &config->dscps[CCBPF_AQM_probe];
	uint8_t dscp;
	int err;

	if (probe) {
		err = parse_dscp(what, AQM_OPTION_PROBE_DSCP, probe, &rest,
				 &dscp);
		if (!err && *rest)
			err = bad(what, AQM_OPTION_PROBE_DSCP, probe,
				  "one DSCP", "give one");
		if (err)
			return err;
		*probes = 1ULL << dscp;
	}
	if (list)
		*nf = 1ULL << LE;
	for (; list; list = *rest ? rest + 1 : NULL) {
		err = parse_dscp(what, AQM_OPTION_NF_DSCP, list, &rest, &dscp);
		if (err)
			return err;
		if (*probes >> dscp & 1)
			return FAIL(EXIT_USAGE, .what = what,
				    .on = names[AQM_OPTION_NF_DSCP],
				    .why = text("%u is the DSCP of probes",
						dscp),
				    .remedy = "`--probe-dscp` gives them "
					      "another");
		*nf |= 1ULL << dscp;
	}
	if (*probes >> LE & 1)
		return FAIL(EXIT_USAGE, .what = what,
			    .on = names[AQM_OPTION_PROBE_DSCP],
			    .why = "1 is LE, which is always of class nf",
			    .remedy = "give probes another");
	*nf &= ~*probes; /* a new probe-dscp may have been one of its */
	return EXIT_OK;
}

int aqm_parse_class(const char *what, const struct aqm_options *options,
		    uint32_t *out)
{
	const char *string = options->given[AQM_OPTION_CLASS];
	unsigned int major, minor;
	int end = 0;

	*out = 0;
	if (!string)
		return EXIT_OK;
	if (sscanf(string, "%x:%x%n", &major, &minor, &end) < 2 ||
	    string[end] || !major || !minor || major > 0xffff || minor > 0xffff)
		return bad(what, AQM_OPTION_CLASS, string, "a class",
			   "for example 1:10, as tc has them");
	*out = major << 16 | minor;
	return EXIT_OK;
}

/* --- the configuration ----------------------------------------------------- */

/* log2 of 1/AVERAGE_PART of the limit in packets, rounded */
static uint32_t default_shift(const struct ccbpf_aqm_config *config)
{
	uint64_t packets = config->limit_bytes / config->packet_bytes;
	uint32_t shift = 0;

	while (shift < AVERAGE_SHIFT &&
	       packets * 3 > (AVERAGE_PART * 4ULL << shift))
		shift++;
	return shift;
}

static int parse_average(const char *what, const char *string,
			 struct ccbpf_aqm_config *config)
{
	const char *rest;
	uint64_t value;

	if (!string)
		return EXIT_OK;
	if (!parse_number(string, &value, &rest) || *rest || !value ||
	    value & (value - 1) || value > 1 << CCBPF_AQM_SHIFT_MOST)
		return bad(what, AQM_OPTION_AVERAGE, string,
			   "a power of 2 from 1 to 32768",
			   "for example 512, RED's; 1: no average");
	config->average_shift = __builtin_ctzll(value);
	return EXIT_OK;
}

static uint32_t in_32_bits(uint64_t value)
{
	return value < UINT32_MAX ? value : UINT32_MAX;
}

static uint32_t packet_ns(uint32_t bytes, uint64_t rate_bps)
{
	return in_32_bits(bytes * (8 * NS_PER_S) / rate_bps ?: 1);
}

static int parse_rate(const char *what, const char *string,
		      struct ccbpf_aqm_config *config)
{
	uint64_t value;

	if (!string)
		return EXIT_OK;
	if (!parse_scaled(string, "KMG", &value) || !value)
		return bad(what, AQM_OPTION_RATE, string, "a rate in bit/s",
			   "for example 10M");
	config->packet_ns = packet_ns(config->packet_bytes, value);
	return EXIT_OK;
}

/* The limit that is given, or the queue's own where that is to be read. */
static int set_limit(const char *what, const char *string,
		     const struct device *device, const struct aqm_queue *queue,
		     bool read, struct ccbpf_aqm_config *config)
{
	if (string)
		return parse_limit(what, string, device, &config->limit_bytes);
	if (!read)
		return EXIT_OK;
	if (!queue->limit_bytes)
		return FAIL(
			EXIT_USAGE, .what = what, .on = "no --limit",
			.why = text("the limit of its queue (%s) cannot be read",
				    queue->kind),
			.remedy =
				"say how much may wait: `--limit SIZE`, for example what the link sends in 100 ms");
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
		config->packet_ns =
			in_32_bits((uint64_t)config->packet_ns *
				   device->packet_bytes / then.packet_bytes);
	config->packet_bytes = device->packet_bytes;
}

/* 1/1000 %: where marks begin by default, in a small queue as well */
static uint32_t default_nf_min(const struct ccbpf_aqm_config *config)
{
	uint64_t bytes = (uint64_t)NF_MIN_PACKETS * config->packet_bytes;
	uint64_t part = config->limit_bytes
				? bytes * CCBPF_AQM_WHOLE / config->limit_bytes
				: 0;

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
	config->dscps[CCBPF_AQM_nf] = 1ULL << LE;
	config->dscps[CCBPF_AQM_probe] = 1ULL << PROBE;
}

static int check_order(const char *what, enum aqm_option option, uint32_t min,
		       uint32_t max)
{
	if (min <= max)
		return EXIT_OK;
	return FAIL(
		EXIT_USAGE, .what = what, .on = names[option],
		.why = text(
			"marks would begin at %s %%, above their end at %s %%",
			aqm_percent(min), aqm_percent(max)),
		.remedy = "give both, the smaller one first");
}

int aqm_configure(const char *what, const struct aqm_options *options,
		  const struct device *device, const struct aqm_queue *queue,
		  bool fresh, struct ccbpf_aqm_config *config)
{
	const char *const *given = options->given;
	bool read = fresh || given[AQM_OPTION_CLASS]; /* what it says itself */
	int err;

	if (fresh)
		*config = (struct ccbpf_aqm_config){
			.packet_bytes = device->packet_bytes
		};
	err = set_limit(what, given[AQM_OPTION_LIMIT], device, queue, read,
			config);
	if (!err && fresh)
		set_defaults(config);
	if (!err && read) {
		config->leaf = queue->leaf;
		if (queue->rate_bps)
			config->packet_ns = packet_ns(config->packet_bytes,
						      queue->rate_bps);
	}
	err = err
		?: parse_part(what, AQM_OPTION_NF_MIN, given[AQM_OPTION_NF_MIN],
			      &config->nf_min)
		?: parse_part(what, AQM_OPTION_NF_MAX, given[AQM_OPTION_NF_MAX],
			      &config->nf_max);
	if (fresh && !given[AQM_OPTION_NF_MIN] &&
	    config->nf_min > config->nf_max)
		config->nf_min = config->nf_max;
	return err
		?: parse_std(what, given[AQM_OPTION_STD], config)
		?: parse_dscps(what, options, config)
		?: parse_average(what, given[AQM_OPTION_AVERAGE], config)
		?: parse_rate(what, given[AQM_OPTION_RATE], config)
		?: check_order(what, AQM_OPTION_NF_MIN, config->nf_min,
			       config->nf_max)
		?: check_order(what, AQM_OPTION_STD, config->std_min,
			       config->std_max);
}
