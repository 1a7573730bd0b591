// SPDX-License-Identifier: GPL-2.0-only
/* nf_red, on each device that has it: the classes' counters, and the queue that packets found. */
#include <stdlib.h>

#include "aqm/aqm.h"
#include "metrics/metrics.h"
#include "out/errors.h"
#include "util/memory.h"
#include "util/text.h"

struct queue {
	const struct tchook *aqm;
	const char *device, *netns;
	struct ccbpf_aqm_counts counts;
};

static void classes(struct exposition *out, const struct queue *queues, unsigned int n)
{
	static const char *const names[] = {
#define X(name, text) #name,
		CCBPF_AQM_CLASSES(X)
#undef X
	};

#define FAMILY(field, help)                                                           \
	exposition_family(out, METRIC_COUNTER, "ccbpf_queue_" #field, help);          \
	for (unsigned int i = 0; i < n; i++)                                          \
		for (unsigned int class = 0; class < CCBPF_AQM_CLASS_COUNT; class ++) \
			exposition_number(out,                                        \
					  LABELS({ "device", queues[i].device },      \
						 { "netns", queues[i].netns },        \
						 { "class", names[class] }),          \
					  queues[i].counts.of[class].field);
	FAMILY(packets, "packets that nf_red has seen; segments of a GSO packet one by one")
	FAMILY(bytes, "bytes of them, with link headers")
	FAMILY(marked, "packets that nf_red marked")
	FAMILY(dropped, "packets that nf_red dropped early, because they were not ECN-capable")
#undef FAMILY
}

static void found(struct exposition *out, const struct queue *queues, unsigned int n)
{
	const char *limits[CCBPF_AQM_BUCKETS];
	uint64_t counts[CCBPF_AQM_BUCKETS];

	for (unsigned int i = 0; i < CCBPF_AQM_BUCKETS - 1; i++)
		limits[i] = text("%llu.0", (1ull << i) - 1);
	limits[CCBPF_AQM_BUCKETS - 1] = "+Inf";
	exposition_family(
		out, METRIC_HISTOGRAM, "ccbpf_queue_found_bytes",
		"packets, by the bytes that waited when they came; their sum is not known");
	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int j = 0; j < CCBPF_AQM_BUCKETS; j++)
			counts[j] = queues[i].counts.histogram[j];
		exposition_histogram(
			out, LABELS({ "device", queues[i].device }, { "netns", queues[i].netns }),
			limits, counts, CCBPF_AQM_BUCKETS, NULL);
	}
}

int metrics_queues(const char *what, struct exposition *out)
{
	struct tchook *all;
	unsigned int n, read = 0;
	int err = tchook_open_all(what, &aqm_kind, &all, &n);
	struct queue *queues = must_alloc(n ?: 1, sizeof(*queues));

	for (unsigned int i = 0; !err && i < n; i++) {
		if (!tchook_is_attached(&all[i]))
			continue;
		queues[read].aqm = &all[i];
		queues[read].device = all[i].identity.device;
		queues[read].netns = text("%u", all[i].identity.netns);
		err = aqm_read_counts(what, &all[i], &queues[read++].counts);
	}
	if (!err) {
		classes(out, queues, read);
		found(out, queues, read);
	}
	for (unsigned int i = 0; i < n; i++)
		attachment_close(&all[i].attachment);
	free(queues);
	free(all);
	return err;
}
