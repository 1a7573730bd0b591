// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf top [NAME…] [--watch SECONDS]: the live flows on a full screen, with what yields now and
 * how much it has yielded, by cgroup and process, or by controller. -b prints a batch for each period
 * instead: a table, or a line of JSON under -j. The map is sampled more often than it is shown,
 * to see how long a flow yields. Whose the flows are is looked up only where it is shown.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cc/running.h"
#include "cmd/owners.h"
#include "commands.h"
#include "out/errors.h"
#include "out/output.h"
#include "out/ticker.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "sys/shared.h"
#include "top/batch.h"
#include "top/screen.h"
#include "top/terminal.h"
#include "util/text.h"

#define WHAT "show"
#define PERIOD_NS 1000000000ull
#define SAMPLE_NS 250000000ull /* at the most, between two samples */

enum own_option {
	OWN_COUNT,
	OWN_SORT,
	OWN_FILTER,
	OWN_GROUP,
};

struct top {
	struct screen screen;
	struct known known;
	bool batch;
	unsigned int samples; /* of a period */
	unsigned int sampled; /* of this one */
	unsigned long count; /* batches that are left; 0: no end */
};

#define SORTS "`rate`, `yielded`, `delay`, `cwnd`, `age` or `port`"
#define BYS "`tree` (cgroup, then process), `cgroup`, `process` or `controller`"

#define X(name, word, ...) word,
static const char *const sorts[] = { ORDERS(X) NULL };
static const char *const groupings[] = { GROUPINGS(X) NULL };
#undef X

/* Which of the words is given; `said`: what they are, for a person. Not given: `*number` stays. */
static int parse_word(const char *option, const char *given, const char *const *words,
		      const char *said, unsigned int *number)
{
	for (unsigned int i = 0; given && words[i]; i++)
		if (!strcmp(given, words[i])) {
			*number = i;
			return EXIT_OK;
		}
	if (!given)
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = WHAT, .on = text("%s %s", option, given),
		    .why = "there is no such order or grouping", .remedy = said);
}

static int parse_count(const char *given, unsigned long *count)
{
	char *end;

	if (!given)
		return EXIT_OK;
	errno = 0;
	*count = strtoul(given, &end, 10);
	if (*given >= '0' && *given <= '9' && !*end && !errno && *count)
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = WHAT, .on = text("--count %s", given),
		    .why = "it is not a whole number from 1 on",
		    .remedy = "give the number of batches, for example `--count 3`");
}

static int parse(const struct request *request, struct top *top)
{
	struct view *view = &top->screen.view;
	const char *filter = request->own[OWN_FILTER];
	/* A person asks whose flows they are; a log or a script shall cost no look at all open files. */
	unsigned int sort = ORDER_RATE, by = request->batch ? GROUPING_CONTROLLER : GROUPING_TREE;
	int err = request_flow_kinds(request, view->named, &view->n_named);

	if (!err)
		err = parse_word("--sort", request->own[OWN_SORT], sorts, SORTS, &sort);
	if (!err)
		err = parse_word("--group", request->own[OWN_GROUP], groupings, BYS, &by);
	if (!err)
		err = parse_count(request->own[OWN_COUNT], &top->count);
	if (!err && filter && strlen(filter) >= VIEW_FILTER_MOST)
		err = FAIL(EXIT_USAGE, .what = WHAT, .on = "--filter", .why = "it is too long",
			   .remedy = text("at most %d bytes", VIEW_FILTER_MOST - 1));
	if (!err && !request->batch && (output.json || top->count))
		err = FAIL(EXIT_USAGE, .what = WHAT, .on = "a full screen",
			   .why = "`-j` and `--count` need -b", .remedy = "add -b");
	if (!err && filter)
		strcpy(view->filter, filter);
	view->order.sort = sort;
	view_group_by(view, by);
	return err;
}

static int sample(struct top *top)
{
	int err = model_sample(&top->screen.model);

	if (!err)
		return EXIT_OK;
	terminal_close();
	return pin_unusable(WHAT, pin_path(shared_name(SHARED_FLOWS), NULL), err);
}

/* Whose the flows are, if that is shown. */
static void look(struct top *top)
{
	struct view *view = &top->screen.view;

	if (view_needs_owners(view) || top->screen.model.holds)
		owners_look(&view->owners, view_needs_owners(view), &top->screen.model);
}

/* A period is over. Returns whether another one is wanted. */
static bool show(struct top *top)
{
	model_period(&top->screen.model);
	look(top);
	if (!top->batch) {
		screen_draw(&top->screen);
		return true;
	}
	batch_print(&top->screen.view, &top->screen.model);
	return !top->count || --top->count;
}

/* One sample more, and every so often what it shows. */
static int tick(struct top *top, bool *goes_on)
{
	int err = sample(top);

	if (err)
		return err;
	if (top->sampled++ == top->samples || (!top->batch && top->sampled == 1)) {
		*goes_on = show(top);
		top->sampled = 1;
	}
	if (!top->batch)
		return EXIT_OK;
	if (!ticker_cut_short())
		return output_finish();
	output_discard();
	return EXIT_OK;
}

static int follow(struct top *top, const struct request *request)
{
	uint64_t period_ns = request->watch_ns ?: PERIOD_NS;
	struct ticker ticker;
	bool goes_on = true;
	int err;

	top->screen.period_ns = top->screen.view.owners.period_ns = period_ns;
	top->samples = (period_ns + SAMPLE_NS - 1) / SAMPLE_NS;
	/* First, because nobody could read on the full screen why it fails. */
	err = ticker_open(&ticker, WHAT, period_ns / top->samples, request->for_ns,
			  top->batch || !isatty(STDIN_FILENO) ? -1 : STDIN_FILENO);
	if (err)
		return err;
	if (!top->batch)
		err = terminal_open("show on a full screen");
	while (!err && goes_on && !top->screen.ended) {
		const struct text_block *mark = text_mark();
		int ticks = ticker_wait(&ticker);

		if (ticks & TICK_END)
			break;
		if ((ticks & TICK_TIMER) && !top->screen.paused)
			err = tick(top, &goes_on);
		if (!err && !top->batch && ticks != TICK_TIMER) { /* a key, or another size */
			screen_keys(&top->screen, ticks & TICK_INPUT);
			look(top);
			screen_draw(&top->screen);
		}
		text_release(mark);
	}
	terminal_close();
	ticker_close(&ticker);
	return err;
}

static int top(const struct request *request)
{
	struct top top = { .batch = request->batch };
	int err = parse(request, &top);

	top.screen.model.screen = !request->batch;
	top.screen.view.owners.source = owner_source(&top.known);
	if (!request->batch)
		output.verbose = 0; /* what libbpf says would be in the screen */
	if (!err)
		err = kernel_require_reading(WHAT, NULL);
	if (!err)
		err = running_require_flows(WHAT);
	if (!err)
		err = follow(&top, request);
	view_free(&top.screen.view);
	model_free(&top.screen.model);
	known_free(&top.known);
	return err;
}

static const struct argp_option options[] = {
	{ "watch", OPTION_WATCH, "SECONDS", 0, "length of a period, by default 1", 0 },
	{ "batch", 'b', 0, 0, "print lines, no full screen", 0 },
	{ "count", OPTION_OWN + OWN_COUNT, "N", 0, "-b: end after N batches", 0 },
	{ "for", OPTION_FOR, "SECONDS", 0, "end after SECONDS", 0 },
	{ "sort", OPTION_OWN + OWN_SORT, "BY", 0, SORTS, 0 },
	{ "group", OPTION_OWN + OWN_GROUP, "BY", 0, BYS "; by default `tree`, with -b `controller`",
	  0 },
	{ "filter", OPTION_OWN + OWN_FILTER, "TEXT", 0,
	  "only flows with TEXT in cgroup (unit, container), process, controller, address, port, phase or yield",
	  0 },
	{ 0 },
};

const struct command cmd_top = {
	.name = "top",
	.args = "[NAME...] [-b]",
	.text = "Watch live flows, and what they yield to",
	.more = "The key ? explains the columns and keys; Enter shows a flow in detail. YIELD is what a flow gives way to now, FOR is for "
		"how long, and PART is the share of the time since its controller took it over, or since the download began. A flow "
		"gives way in the phases inference, small and recovery. The cgroup is known for flows that have a socket on this "
		"host, the process for those whose socket a process holds. The first batch of -b comes after one period.",
	.options = options,
	.run = top,
};
