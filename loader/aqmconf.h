/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What nf_red is told: the options of `ccbpf aqm`, what the device's qdiscs say
 * of themselves, and the defaults.
 *
 *   X(id, name, argument, text)
 */
#ifndef CCBPF_AQMCONF_H
#define CCBPF_AQMCONF_H

#include <json-c/json.h>

#include "ccbpf/aqm.h"
#include "qdisc.h"

#define AQM_OPTIONS(X)                                                                          \
	X(LIMIT, "limit", "SIZE",                                                               \
	  "100 % of the queue: bytes, or with K, M (thousands, millions) or p (packets of "     \
	  "the device's MTU and link header); read from the qdisc by default")                  \
	X(NF_MIN, "nf-min", "PCT",                                                              \
	  "the average queue where marks of class nf begin, % of the limit, up to 3 decimals "  \
	  "(1, or what three packets are)")                                                     \
	X(NF_MAX, "nf-max", "PCT",                                                              \
	  "the average queue above which every packet of class nf is marked, % of the limit; "  \
	  "as nf-min: a step there (50)")                                                       \
	X(STD, "std", "MIN,MAX|off",                                                            \
	  "where marks of class standard begin, and above which each is marked, % of the "      \
	  "limit; off: never (90.667,100)")                                                     \
	X(NF_DSCP, "nf-dscp", "LIST",                                                           \
	  "DSCPs of class nf, 0 to 63, with commas between; LE, 1, is always one (1)")          \
	X(PROBE_DSCP, "probe-dscp", "N", "DSCP of class probe (7)")                             \
	X(AVERAGE, "average", "PACKETS",                                                        \
	  "weight of the average: 1/PACKETS, a power of 2 up to 32768; 1: the queue as it is "  \
	  "(by default 1/16 of the limit, at most 512)")                                        \
	X(RATE, "rate", "BITS",                                                                 \
	  "the link's bit/s, or with K, M, G: how fast an empty queue is forgotten; read from " \
	  "the qdisc or the device by default")                                                 \
	X(CLASS, "class", "CLASSID",                                                            \
	  "the queue of this class of htb, as 1:10, instead of the root's; its limit and rate " \
	  "are read where they are not given with it")

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

/* Which queue of the device is read, and what it says of itself. */
struct aqm_queue {
	const struct qdisc *root; /* NULL: none that can be seen (noqueue) */
	char kind[16]; /* "": there is none, or not under that class */
	bool lock_free; /* or a child of it: nf_red finds it empty, always */
	uint32_t leaf; /* classid, 0: the root's */
	uint64_t limit_bytes; /* 0: not known */
	uint64_t rate_bps; /* bit/s, 0: not known */
	uint32_t backlog_bytes; /* now */
};

/*
 * Look at the device's qdiscs. `leaf`: of a class, 0: the root's. Returns
 * EXIT_OK, or the exit code after saying why that queue cannot be read.
 */
int aqm_find_queue(const char *what, const struct device *device,
		   const struct qdiscs *all, uint32_t leaf,
		   struct aqm_queue *out);

/* The same, as far as it can be told, saying nothing. */
void aqm_look_at_queue(const struct device *device, const struct qdiscs *all,
		       uint32_t leaf, struct aqm_queue *out);

/* classid of --class; 0: not given. Returns EXIT_OK or EXIT_USAGE. */
int aqm_parse_class(const char *what, const struct aqm_options *options,
		    uint32_t *out);

/*
 * The device's packets may have got another size since: a configuration takes it,
 * at the rate that it has, and where its limit is the queue's own, in packets, it
 * goes with them.
 */
void aqm_follow_device(const struct device *device, const struct qdiscs *all,
		       struct ccbpf_aqm_config *config);

/*
 * Put the options into a configuration. First `fresh` is filled with the defaults,
 * and it or one that gets another class with what the queue says: limit, rate.
 * Returns EXIT_OK, or EXIT_USAGE after saying which
 * option is wrong. `what`: "attach nf_red to v0 with".
 */
int aqm_configure(const char *what, const struct aqm_options *options,
		  const struct device *device, const struct aqm_queue *queue,
		  bool fresh, struct ccbpf_aqm_config *config);

/* A part of the limit in %, "90.667". */
const char *aqm_percent(uint32_t part);

/* "1:10" */
const char *aqm_classid(uint32_t classid);

#endif
