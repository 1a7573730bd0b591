// SPDX-License-Identifier: GPL-2.0-only
/* Metrics as text: see exposition.h. */
#include <stdlib.h>

#include "metrics/exposition.h"
#include "out/printable.h"
#include "util/memory.h"

static const char *const types[] = {
	[METRIC_COUNTER] = "counter",	  [METRIC_GAUGE] = "gauge",
	[METRIC_HISTOGRAM] = "histogram", [METRIC_GAUGE_HISTOGRAM] = "gaugehistogram",
	[METRIC_INFO] = "info",
};

/* What ends the names of a kind's samples. */
static const char *suffix(enum metric kind)
{
	return kind == METRIC_COUNTER ? "_total" : kind == METRIC_INFO ? "_info" : "";
}

static const char *type(enum metric kind, bool older)
{
	if (older && kind == METRIC_INFO)
		kind = METRIC_GAUGE;
	if (older && kind == METRIC_GAUGE_HISTOGRAM)
		kind = METRIC_HISTOGRAM;
	return types[kind];
}

void exposition_family(struct exposition *out, enum metric kind, const char *name, const char *help)
{
	bool older = !out->openmetrics;
	const char *more = older ? suffix(kind) : "";

	out->kind = kind;
	out->name = name;
	fprintf(out->to, "# HELP %s%s %s\n", name, more, help);
	fprintf(out->to, "# TYPE %s%s %s\n", name, more, type(kind, older));
}

/* A label's value: any string of the system. */
static void print_value(FILE *to, const char *value)
{
	char *copy = make_printable(must_copy(value));

	for (const char *c = copy; *c; c++) {
		if (*c == '\\' || *c == '"')
			putc('\\', to);
		putc(*c, to);
	}
	free(copy);
}

static void print_label(FILE *to, char before, const struct label *label)
{
	fprintf(to, "%c%s=\"", before, label->name);
	print_value(to, label->value);
	putc('"', to);
}

/* name_end{labels,more}, up to the value of the sample. `more` may be NULL. */
static void print_name(struct exposition *out, const char *end, const struct label *labels,
		       const struct label *more)
{
	char before = '{';

	fprintf(out->to, "%s%s", out->name, end);
	for (; labels->name; labels++) {
		print_label(out->to, before, labels);
		before = ',';
	}
	if (more)
		print_label(out->to, before, more);
	fputs(before == ',' || more ? "} " : " ", out->to);
}

void exposition_number(struct exposition *out, const struct label *labels, uint64_t value)
{
	print_name(out, suffix(out->kind), labels, NULL);
	fprintf(out->to, "%llu\n", (unsigned long long)value);
}

void exposition_seconds(struct exposition *out, const struct label *labels, uint64_t ns)
{
	print_name(out, suffix(out->kind), labels, NULL);
	fprintf(out->to, "%llu.%09llu\n", (unsigned long long)(ns / 1000000000),
		(unsigned long long)(ns % 1000000000));
}

/* Of a histogram of gauges OpenMetrics calls them _gsum and _gcount. */
static void print_sum_and_count(struct exposition *out, const struct label *labels, const char *sum,
				uint64_t count)
{
	bool gauge = out->openmetrics && out->kind == METRIC_GAUGE_HISTOGRAM;

	print_name(out, gauge ? "_gsum" : "_sum", labels, NULL);
	fprintf(out->to, "%s\n", sum ?: "NaN");
	print_name(out, gauge ? "_gcount" : "_count", labels, NULL);
	fprintf(out->to, "%llu\n", (unsigned long long)count);
}

void exposition_histogram(struct exposition *out, const struct label *labels,
			  const char *const *limits, const uint64_t *counts, unsigned int n,
			  const char *sum)
{
	uint64_t count = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct label le = { "le", limits[i] };

		count += counts[i];
		print_name(out, "_bucket", labels, &le);
		fprintf(out->to, "%llu\n", (unsigned long long)count);
	}
	if (sum || !out->openmetrics) /* there a histogram without a sum has no count */
		print_sum_and_count(out, labels, sum, count);
}

void exposition_end(struct exposition *out)
{
	if (out->openmetrics)
		fprintf(out->to, "# EOF\n");
}
