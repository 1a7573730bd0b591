// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf trace [NAME…] [--for SECONDS] [--plot PICTURE]: the events of the controllers and of
 * downloads (rx_le) as they happen, one line each (NDJSON under -j), until Ctrl-C; --plot then draws
 * them over samples of the flows. The programs write events only while `listener` lies in
 * the future: it is renewed at least every second to now + 3 s, so that a trace that
 * was killed costs them nothing for longer. A ring buffer has one reader: a second
 * trace is refused (lock on <root>/trace).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cc/events.h"
#include "cc/flowjson.h"
#include "cc/flowtext.h"
#include "cc/running.h"
#include "sys/shared.h"
#include "cc/stats.h"
#include "cmd/recording.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "out/ticker.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/clock.h"
#include "util/text.h"

#define WHAT "trace"
#define RENEW_NS 1000000000ULL
#define LISTEN_NS (3 * RENEW_NS)

enum own_option {
	OWN_PLOT,
};

struct trace {
	const struct flow_kind *named[CCBPF_KINDS];
	unsigned int n_named;
	int lock_fd, events_fd, listener_fd, stats_fd;
	struct ring_buffer *ring;
	uint64_t started_ns; /* what happened before is old news of an earlier
				trace, left unread */
	int64_t to_realtime_ns; /* CLOCK_REALTIME - monotonic_ns() */
	unsigned long long shown, dropped_before;
	uint64_t listens_until_ns; /* as last renewed */
	uint64_t deaf_ns; /* in all: renewed too late, nobody read our output */
	struct recording recording; /* of --plot */
};

static int64_t realtime_offset(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec - (int64_t)monotonic_ns();
}

static void print_event(const struct trace *trace, const struct ccbpf_event *event)
{
	const struct flow_kind *kind = flow_kind_of(event->kind);
	const struct event_type *type = event_type_of(event->type);
	uint64_t ns = event->time_ns + trace->to_realtime_ns;
	time_t s = ns / 1000000000;
	char clock[16];
	struct tm tm;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&s, &tm));
	output_line("%s.%06u %s %s → %s %s cwnd %u%s%s", clock,
		    (unsigned int)(ns % 1000000000 / 1000), kind ? kind->name : "?",
		    endpoint(event->family, event->local_addr, event->local_port),
		    endpoint(event->family, event->remote_addr, event->remote_port),
		    type ? type->word : "?", event->cwnd,
		    type && strcmp(type->a, "0") ? text(", %s: %u", type->a, event->a) : "",
		    type && strcmp(type->b, "0") ? text(", %s: %u", type->b, event->b) : "");
}

/* Whether events and flows of this kind are asked for. */
static bool wanted(const void *data, __u32 kind)
{
	const struct trace *trace = data;

	for (unsigned int i = 0; i < trace->n_named; i++)
		if (kind == trace->named[i]->kind)
			return true;
	return trace->n_named == 0;
}

static int on_event(void *context, void *data, size_t size)
{
	const struct ccbpf_event *event = data;
	const struct text_block *mark = text_mark();
	struct trace *trace = context;

	if (size < sizeof(*event) || event->time_ns < trace->started_ns ||
	    !wanted(trace, event->kind))
		return 0;
	if (ticker_cut_short())
		return -EINTR; /* leave the others where they are */
	trace->shown++;
	recording_event(&trace->recording, event);
	if (output.json)
		output_json(event_json(event));
	else
		print_event(trace, event);
	text_release(mark);
	return 0;
}

/* Events lost because nobody read fast enough, of all together. */
static unsigned long long dropped_now(const struct trace *trace)
{
	unsigned long long dropped = 0;

	for_each_flow_kind(k)
	{
		struct ccbpf_stats stats;

		if (stats_read(trace->stats_fd, k->kind, &stats) == 0)
			dropped += stats.events_dropped;
	}
	return dropped;
}

static int listen_until(const struct trace *trace, uint64_t until_ns)
{
	uint32_t zero = 0;

	if (bpf_map_update_elem(trace->listener_fd, &zero, &until_ns, BPF_ANY))
		return fail_errno(WHAT, pin_path(shared_name(SHARED_LISTENER), NULL), errno);
	return EXIT_OK;
}

/* Become the only trace. */
static int lock(struct trace *trace)
{
	const char *path = pin_path(PINS_TRACE, NULL);
	int fd, holder, err = pin_make_dir(WHAT, path);

	if (err)
		return err;
	trace->lock_fd = pin_lock_dir(path);
	if (trace->lock_fd >= 0)
		return EXIT_OK;
	if (trace->lock_fd != -EWOULDBLOCK)
		return fail_errno(WHAT, path, trace->lock_fd);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	holder = pin_lock_holder(fd);
	err = FAIL(
		EXIT_FAILED, .what = WHAT, .on = "events",
		.why = text("another `ccbpf trace`%s reads them, and a ring buffer has one reader",
			    holder ? text(", process %d,", holder) : ""),
		.remedy = holder ? text("let it end, or `kill -INT %d`", holder) : "let it end");
	close(fd);
	return err;
}

static int open_maps(struct trace *trace)
{
	int err = shared_open(WHAT, SHARED_EVENTS, &trace->events_fd);

	if (!err)
		err = shared_open(WHAT, SHARED_LISTENER, &trace->listener_fd);
	if (!err)
		err = shared_open(WHAT, SHARED_STATS, &trace->stats_fd);
	if (!err && (trace->events_fd < 0 || trace->listener_fd < 0 || trace->stats_fd < 0))
		err = running_none(WHAT, "events");
	if (!err)
		err = lock(trace);
	if (err)
		return err;
	trace->ring = ring_buffer__new(trace->events_fd, on_event, trace, NULL);
	if (!trace->ring)
		return fail_errno(WHAT, pin_path(shared_name(SHARED_EVENTS), NULL), errno);
	return EXIT_OK;
}

static void close_maps(struct trace *trace)
{
	int fds[] = { trace->events_fd, trace->listener_fd, trace->stats_fd, trace->lock_fd };

	bool ours = trace->lock_fd >= 0 && pin_exists(pins_root()) &&
		    pins_lock_change(WHAT) == EXIT_OK;

	ring_buffer__free(trace->ring);
	if (ours)
		pin_remove_dir(pin_path(PINS_TRACE, NULL));
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (ours)
		sweep(WHAT, SWEEP_UNUSED, NULL); /* what our listening kept
						    alive */
	pins_unlock();
}

/* Listen on. Output that nobody reads stops us, and then nobody listens. */
static int renew(struct trace *trace)
{
	uint64_t now_ns = monotonic_ns(), until_ns = trace->listens_until_ns;

	if (until_ns && now_ns > until_ns) {
		trace->deaf_ns += now_ns - until_ns;
		note(WHAT,
		     text("no events were recorded for %.1f s, because the output was not read",
			  (now_ns - until_ns) / 1e9),
		     NULL);
	}
	trace->listens_until_ns = now_ns + LISTEN_NS;
	return listen_until(trace, trace->listens_until_ns);
}

static int follow(struct trace *trace, uint64_t for_ns)
{
	struct ticker ticker;
	uint64_t every_ns = trace->recording.picture ? RECORD_NS : RENEW_NS;
	int err = ticker_open(&ticker, WHAT, every_ns, for_ns, ring_buffer__epoll_fd(trace->ring));

	if (err)
		return err;
	while (!err) {
		const struct text_block *mark = text_mark();
		int ticks = ticker_wait(&ticker);

		if (ticks & TICK_TIMER)
			err = renew(trace);
		if (!err && ticks & TICK_TIMER)
			err = recording_sample(&trace->recording, wanted, trace);
		ring_buffer__consume(trace->ring);
		if (ticker_cut_short())
			output_discard();
		else if (!err)
			err = output_finish();
		text_release(mark);
		if (ticks & TICK_END)
			break;
	}
	ticker_close(&ticker);
	listen_until(trace, 0);
	return err;
}

static void summarize(const struct trace *trace)
{
	double seconds = (monotonic_ns() - trace->started_ns) / 1e9;
	unsigned long long dropped = dropped_now(trace) - trace->dropped_before;

	note(WHAT,
	     text("%llu events in %.1f s, %llu lost%s", trace->shown, seconds, dropped,
		  trace->deaf_ns
			  ? text(", and what happened in %.1f s of them", trace->deaf_ns / 1e9)
			  : ""),
	     NULL);
}

static int trace(const struct request *request)
{
	struct trace trace = { .lock_fd = -1,
			       .events_fd = -1,
			       .listener_fd = -1,
			       .stats_fd = -1,
			       .recording.flows_fd = -1 };
	bool exists;
	int err = request_flow_kinds(request, trace.named, &trace.n_named);

	if (!err)
		err = kernel_require_reading(WHAT, NULL);
	if (!err)
		err = recording_open(&trace.recording, WHAT, request->own[OWN_PLOT]);
	if (!err)
		err = pins_lock_read(WHAT, &exists);
	if (err) {
		recording_close(&trace.recording);
		return err;
	}
	err = open_maps(&trace);
	if (!err)
		err = recording_open_flows(&trace.recording);
	pins_unlock();
	if (!err) {
		trace.started_ns = monotonic_ns();
		trace.to_realtime_ns = realtime_offset();
		trace.dropped_before = dropped_now(&trace);
		err = follow(&trace, request->for_ns);
	}
	if (!err)
		summarize(&trace);
	close_maps(&trace);
	if (!err)
		err = recording_draw(&trace.recording);
	recording_close(&trace.recording);
	return err;
}

static const struct argp_option options[] = {
	{ "for", OPTION_FOR, "SECONDS", 0, "stop after SECONDS", 0 },
	{ "plot", OPTION_OWN + OWN_PLOT, "PICTURE", 0,
	  "draw the flows and their events at the end: an .svg, .png or .pdf", 0 },
	{ 0 },
};

const struct command cmd_trace = {
	.name = "trace",
	.args = "[NAME...] [--for SECONDS] [--plot PICTURE]",
	.text = "Follow the events of the controllers and of downloads",
	.more = "The picture is that of `ccbpf plot`, and needs the same package.",
	.options = options,
	.run = trace,
};
