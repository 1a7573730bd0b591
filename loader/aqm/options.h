/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The options of `ccbpf aqm attach` and `set`: their table, and what their words and
 * numbers mean.
 *
 *   X(id, name, argument, text)
 */
#ifndef CCBPF_AQM_OPTIONS_H
#define CCBPF_AQM_OPTIONS_H

#include "ccbpf/aqm.h"
#include "sys/device.h"

#define AQM_OPTIONS(X)                                                                                                              \
	X(LIMIT, "limit", "SIZE",                                                                                                   \
	  "size of the full queue (100 %): bytes, or with K, M (thousands, millions) or p (packets of "                             \
	  "the device's MTU and link header); read from the qdisc by default")                                                      \
	X(NF_MIN, "nf-min", "PCT",                                                                                                  \
	  "the average queue where marks of class nf begin, % of the limit, up to 3 decimals "                                      \
	  "(1, or what three packets are)")                                                                                         \
	X(NF_MAX, "nf-max", "PCT",                                                                                                  \
	  "the average queue above which every packet of class nf is marked, % of the limit; "                                      \
	  "the same as nf-min: every packet is marked from there on (50)")                                                          \
	X(STD, "std", "MIN,MAX|off",                                                                                                \
	  "where marks of class standard begin, and above which each is marked, % of the "                                          \
	  "limit; off: never (90.667,100)")                                                                                         \
	X(NF_DSCP, "nf-dscp", "LIST",                                                                                               \
	  "DSCPs of class nf, 0 to 63, with commas between; LE, 1, is always one (1)")                                              \
	X(PROBE_DSCP, "probe-dscp", "N", "DSCP of class probe (7)")                                                                 \
	X(AVERAGE, "average", "PACKETS",                                                                                            \
	  "weight of the average: 1/PACKETS, a power of 2 up to 32768; 1: the queue without averaging "                             \
	  "(by default 1/16 of the limit, at most 512)")                                                                            \
	X(RATE, "rate", "BITS",                                                                                                     \
	  "rate of the link in bit/s, or with K, M, G; it decides how fast the average decays while the queue is empty; read from " \
	  "the qdisc or the device by default")                                                                                     \
	X(CLASS, "class", "CLASSID",                                                                                                \
	  "the queue of this class of htb, as 1:10, instead of the root's; its limit and rate "                                     \
	  "are read from the class if they are not given")

enum aqm_option {
#define X(id, name, argument, text) AQM_OPTION_##id,
	AQM_OPTIONS(X)
#undef X
	AQM_OPTION_COUNT
};

/* What the options say; what is not given is NULL. */
struct aqm_options {
	const char *given[AQM_OPTION_COUNT];
};

#define AQM_DSCP_LE 1 /* of RFC 8622 */

/* Its name as it is given, "--limit". */
extern const char *const aqm_option_names[AQM_OPTION_COUNT];

/*
 * Read one option into `out`, which is left alone where `string` is NULL. Return
 * EXIT_OK, or EXIT_USAGE after saying what is wrong.
 */
int aqm_parse_limit(const char *what, const char *string, const struct device *device,
		    uint32_t *out);
int aqm_parse_part(const char *what, enum aqm_option option, const char *string, uint32_t *out);
int aqm_parse_rate(const char *what, const char *string, uint64_t *bps);
int aqm_parse_average(const char *what, const char *string, struct ccbpf_aqm_config *config);
int aqm_parse_std(const char *what, const char *string, struct ccbpf_aqm_config *config);

/* The same for both --nf-dscp and --probe-dscp. */
int aqm_parse_dscps(const char *what, const struct aqm_options *options,
		    struct ccbpf_aqm_config *config);

/* classid of --class; 0: not given. Returns EXIT_OK or EXIT_USAGE. */
int aqm_parse_class(const char *what, const struct aqm_options *options, uint32_t *out);

/* A part of the limit in %, "90.667". */
const char *aqm_percent(uint32_t part);

#endif
