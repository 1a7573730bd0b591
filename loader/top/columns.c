// SPDX-License-Identifier: GPL-2.0-only
/* The columns of `ccbpf top`: see columns.h. */
#include "cc/flowtext.h"
#include "out/human.h"
#include "top/columns.h"
#include "util/clock.h"
#include "util/text.h"

#define NS_PER_S 1000000000ull

const char *watched_ended(const struct watched *watched, uint64_t now_ns)
{
	return text("ended %llu s ago", (now_ns - watched->ended_ns) / NS_PER_S);
}

const char *sum_words(const struct sum *sum)
{
	char words[128] = "";
	size_t all = sum_yielding(sum);

	for (unsigned int i = YIELDING_NOT + 1; i < YIELDING_KINDS; i++)
		if (sum->yielding[i])
			append(words, sizeof(words), ", ", "%zu %s", sum->yielding[i],
			       yielding_word(i));
	return text("%zu flow%s, %s bit/s, %zu yield%s%s%s%s%s", sum->flows,
		    sum->flows == 1 ? "" : "s", human_bps(sum->goodput_bps), all,
		    all == 1 ? "s" : "", all ? " (" : "", words, all ? ")" : "",
		    sum->ended ? text(", %zu ended", sum->ended) : "");
}

bool top_column_shown(const struct top_column *column, int width, bool mixed)
{
	return width >= (mixed ? column->from_mixed : column->from);
}

static const char *controller(const struct watched *w, uint64_t now_ns)
{
	(void)now_ns;
	return text("%.*s", CCBPF_NAME_LEN, w->flow.record.controller);
}

static const char *local(const struct watched *w, uint64_t now_ns)
{
	const struct ccbpf_flow *f = &w->flow.record;

	(void)now_ns;
	return endpoint(f->family, f->local_addr, f->local_port);
}

static const char *remote(const struct watched *w, uint64_t now_ns)
{
	const struct ccbpf_flow *f = &w->flow.record;

	(void)now_ns;
	return endpoint(f->family, f->remote_addr, f->remote_port);
}

static const char *rate(const struct watched *w, uint64_t now_ns)
{
	(void)now_ns;
	return w->goodput_known ? human_bps(w->goodput_bps) : "-";
}

static const char *delay(const struct watched *w, uint64_t now_ns)
{
	const struct ccbpf_flow *f = &w->flow.record;

	(void)now_ns;
	return text("%s/%s", human_ms(f->delay_smoothed_us), human_ms(f->delay_threshold_us));
}

/* "####...", "#######!" above the threshold, "-" where there is none. */
static const char *bar(const struct watched *w, uint64_t now_ns)
{
	const struct ccbpf_flow *f = &w->flow.record;
	uint64_t filled, cells = TOP_BAR - 1;
	char cell[TOP_BAR + 1] = "";

	(void)now_ns;
	if (!f->delay_threshold_us)
		return "-";
	filled = cells * f->delay_smoothed_us / f->delay_threshold_us;
	for (unsigned int i = 0; i < cells; i++)
		cell[i] = i < filled ? '#' : '.';
	cell[cells] = f->delay_smoothed_us > f->delay_threshold_us ? '!' : ' ';
	return text("%s", cell);
}

static const char *phase(const struct watched *w, uint64_t now_ns)
{
	(void)now_ns;
	return phase_word(w->flow.record.phase);
}

static const char *yields(const struct watched *w, uint64_t now_ns)
{
	(void)now_ns;
	return yielding_word(w->yielding);
}

static const char *since(const struct watched *w, uint64_t now_ns)
{
	return w->yielding == YIELDING_NOT ? "" : human_age(watched_yields_ns(w, now_ns));
}

static const char *part(const struct watched *w, uint64_t now_ns)
{
	(void)now_ns;
	return text("%.0f%%", 100 * w->yielded);
}

static const char *rtt(const struct watched *w, uint64_t now_ns)
{
	(void)now_ns;
	return human_ms(w->flow.record.srtt_us);
}

static const char *age(const struct watched *w, uint64_t now_ns)
{
	return human_age(watched_age_ns(w, now_ns));
}

#define NUMBER(field)                                                           \
	static const char *field##_of(const struct watched *w, uint64_t now_ns) \
	{                                                                       \
		(void)now_ns;                                                   \
		return text("%llu", (unsigned long long)w->flow.record.field);  \
	}
NUMBER(cwnd)
NUMBER(indications)
NUMBER(losses)
NUMBER(marks)
NUMBER(retransmits)
#undef NUMBER

#define R .right = true
#define E .elastic = true
#define W .who = true
#define N TOP_NEVER

/* clang-format off */
const struct top_column top_columns[] = {
	{ "CONTROLLER", 10,   N,  86, W,    .cell = controller },
	{ "LOCAL",      23, 120, 130, W, E, .cell = local },
	{ "REMOTE",     23,   0,   0, W, E, .cell = remote },
	{ "BIT/S",       6,   0,   0, R,    .cell = rate },
	{ "CWND",        5,   0,   0, R,    .cell = cwnd_of },
	{ "SRTT ms",     7, 100, 110, R,    .cell = rtt },
	{ "DELAY ms",   11,  90, 102, R,    .cell = delay },
	{ "DELAY",       8,   0,   0,       .cell = bar },
	{ "PHASE",      10,   0,   0,       .cell = phase },
	{ "YIELD",       5,   0,   0,       .cell = yields },
	{ "FOR",         5,   0,   0, R,    .cell = since },
	{ "PART",        4,   0,   0, R,    .cell = part },
	{ "AGE",         5, 140, 151, R,    .cell = age },
	{ "INDIC",       5, 150, 161, R,    .cell = indications_of },
	{ "LOSSES",      6, 160, 171, R,    .cell = losses_of },
	{ "MARKS",       5, 170, 181, R,    .cell = marks_of },
	{ "RETRANS",     7, 180, 191, R,    .cell = retransmits_of },
};
/* clang-format on */
const unsigned int n_top_columns = sizeof(top_columns) / sizeof(top_columns[0]);
