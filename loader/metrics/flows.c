// SPDX-License-Identifier: GPL-2.0-only
/* The flows of this instant, summed by controller from the map `flows`, with the downloads. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cc/flowkinds.h"
#include "cc/flows.h"
#include "cc/flowtext.h"
#include "sys/shared.h"
#include "cc/yielding.h"
#include "metrics/metrics.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "util/clock.h"
#include "util/memory.h"

/* Limits of the smoothed queueing delay: X(us, "s") */
#define DELAYS(X)        \
	X(1000, "0.001") \
	X(2000, "0.002") \
	X(5000, "0.005") \
	X(10000, "0.01") \
	X(20000, "0.02") \
	X(50000, "0.05") \
	X(100000, "0.1") \
	X(200000, "0.2") \
	X(500000, "0.5") \
	X(~0u, "+Inf")

static const struct {
	uint32_t us;
	const char *seconds;
} delays[] = {
#define X(us, seconds) { us, seconds },
	DELAYS(X)
#undef X
};
#define N_DELAYS (sizeof(delays) / sizeof(delays[0]))

/* Of the flows of one controller. */
struct sums {
	uint64_t flows, bytes_acked, retransmits;
	uint64_t phases[CCBPF_PHASES], yielding[YIELDING_KINDS], delayed[N_DELAYS];
};

static void add(struct sums *to, const struct ccbpf_flow *flow, uint64_t now_ns)
{
	to->flows++;
	to->bytes_acked += flow->bytes_acked;
	to->retransmits += flow->retransmits;
	if (flow->phase < CCBPF_PHASES)
		to->phases[flow->phase]++;
	to->yielding[yielding_of(flow, NULL, YIELDING_NOT, now_ns)]++;
	for (unsigned int i = 0; i < N_DELAYS; i++)
		to->delayed[i] += flow->delay_smoothed_us <= delays[i].us;
}

static void totals(struct exposition *out, const struct sums *sums)
{
#define FAMILY(field, help)                                               \
	exposition_family(out, METRIC_GAUGE, "ccbpf_live_" #field, help); \
	for_each_flow_kind(k)                                             \
		exposition_number(out, LABELS({ "controller", k->name }), sums[k->kind].field);
	FAMILY(flows, "flows that the controller serves now")
	FAMILY(bytes_acked,
	       "bytes: acknowledged payload of the flows that live now, sent or (rx_le) received")
	FAMILY(retransmits, "packets that the flows that live now sent again")
#undef FAMILY
}

static void by_phase(struct exposition *out, const struct sums *sums)
{
	exposition_family(out, METRIC_GAUGE, "ccbpf_live_flows_in_phase",
			  "flows by what the controller does with them now");
	for_each_flow_kind(k) for (unsigned int i = 0; i < CCBPF_PHASES; i++)
		exposition_number(out,
				  LABELS({ "controller", k->name }, { "phase", phase_word(i) }),
				  sums[k->kind].phases[i]);
}

static void by_yielding(struct exposition *out, const struct sums *sums)
{
	exposition_family(out, METRIC_GAUGE, "ccbpf_live_flows_yielding",
			  "flows that give way now, by what they give way to");
	for_each_flow_kind(k) for (unsigned int i = YIELDING_NOT + 1; i < YIELDING_KINDS; i++)
		exposition_number(out,
				  LABELS({ "controller", k->name }, { "to", yielding_word(i) }),
				  sums[k->kind].yielding[i]);
}

static void by_delay(struct exposition *out, const struct sums *sums)
{
	exposition_family(out, METRIC_GAUGE, "ccbpf_live_flows_delay_at_most",
			  "flows whose smoothed queueing delay is at most so many seconds now");
	for_each_flow_kind(k) for (unsigned int i = 0; i < N_DELAYS; i++) exposition_number(
		out, LABELS({ "controller", k->name }, { "seconds", delays[i].seconds }),
		sums[k->kind].delayed[i]);
}

int metrics_flows(const char *what, struct exposition *out)
{
	struct sums sums[CCBPF_KINDS] = { 0 };
	uint64_t now_ns = monotonic_ns();
	struct flow *flows;
	size_t n;
	int fd, err = shared_open(what, SHARED_FLOWS, &fd);

	if (err || fd < 0)
		return err;
	err = flows_read(fd, &flows, &n);
	close(fd);
	if (!err) {
		for (size_t i = 0; i < n; i++)
			if (flows[i].record.kind < CCBPF_KINDS)
				add(&sums[flows[i].record.kind], &flows[i].record, now_ns);
		totals(out, sums);
		by_phase(out, sums);
		by_yielding(out, sums);
		by_delay(out, sums);
	}
	free(flows);
	return err ? fail_errno(what, pin_path(shared_name(SHARED_FLOWS), NULL), err) : EXIT_OK;
}
