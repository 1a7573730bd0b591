// SPDX-License-Identifier: GPL-2.0-only
/* Does a flow give way now: see yielding.h. */
#include <stdbool.h>
#include <stddef.h>

#include "cc/yielding.h"

const char *yielding_word(enum yielding yielding)
{
	static const char *const words[] = {
#define X(name, word, text) word,
		YIELDINGS(X)
#undef X
	};

	return words[yielding];
}

static bool is_silent(const struct ccbpf_flow *flow, __u64 now_ns)
{
	return now_ns > flow->updated_ns && now_ns - flow->updated_ns > YIELDING_SILENT_NS;
}

static bool in_yielding_phase(const struct ccbpf_flow *flow)
{
	return flow->phase == CCBPF_PHASE_INFERENCE || flow->phase == CCBPF_PHASE_SMALL ||
	       flow->phase == CCBPF_PHASE_RECOVERY;
}

/* What an early indication is. */
static enum yielding early_sign(const struct ccbpf_flow *flow)
{
	return flow->delay_source == CCBPF_SIGNAL_ECN ? YIELDING_MARK : YIELDING_DELAY;
}

enum yielding yielding_of(const struct ccbpf_flow *flow, const struct ccbpf_flow *before,
			  enum yielding was, __u64 now_ns)
{
	if (!in_yielding_phase(flow) || is_silent(flow, now_ns))
		return YIELDING_NOT;
	if (before && flow->losses != before->losses)
		return YIELDING_LOSS;
	if (before && flow->marks != before->marks)
		return YIELDING_MARK;
	if (before && flow->indications != before->indications)
		return early_sign(flow);
	if (was != YIELDING_NOT)
		return was;
	if (flow->phase != CCBPF_PHASE_RECOVERY)
		return early_sign(flow);
	return flow->marks && flow->delay_source == CCBPF_SIGNAL_ECN ? YIELDING_MARK
								     : YIELDING_LOSS;
}
