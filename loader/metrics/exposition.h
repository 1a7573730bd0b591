/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Metrics as text: families, each with its samples. In the format that Prometheus and
 * node_exporter read from files (text 0.0.4), or as OpenMetrics 1.0. They differ in the
 * headings of counters and of infos, in histograms of gauges, in one without a sum, and in the last line.
 */
#ifndef CCBPF_EXPOSITION_H
#define CCBPF_EXPOSITION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum metric {
	METRIC_COUNTER, /* its name here is without _total */
	METRIC_GAUGE,
	METRIC_HISTOGRAM,
	METRIC_GAUGE_HISTOGRAM, /* what its buckets hold may fall; text 0.0.4 has no other word than histogram */
	METRIC_INFO, /* its name here is without _info; always 1 */
};

struct exposition {
	FILE *to;
	bool openmetrics;
	enum metric kind; /* of the family under way */
	const char *name;
};

struct label {
	const char *name, *value;
};

/* LABELS({ "controller", name }, { "phase", word }) */
#define LABELS(...) ((const struct label[]){ __VA_ARGS__, { NULL, NULL } })

/* Begin a family. `name` must live as long as it is under way. */
void exposition_family(struct exposition *out, enum metric kind, const char *name,
		       const char *help);

/* A sample of the family under way; `labels` end with a name that is NULL. */
void exposition_number(struct exposition *out, const struct label *labels, uint64_t value);
void exposition_seconds(struct exposition *out, const struct label *labels, uint64_t ns);

/* A histogram: counts[i] are at most limits[i] and above the one before; the last limit is "+Inf". `sum`
 * of all that was counted; NULL: it is not known. */
void exposition_histogram(struct exposition *out, const struct label *labels,
			  const char *const *limits, const uint64_t *counts, unsigned int n,
			  const char *sum);

/* End the text. */
void exposition_end(struct exposition *out);

#endif
