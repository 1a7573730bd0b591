// SPDX-License-Identifier: GPL-2.0-only
/*
 * sim PROGRAMS < scenario.json > result.json
 *
 * Runs one scenario and prints what its receivers got. PROGRAMS is the directory of the controllers built for the host.
 * The scenario's members are those that tests/sim/translate.py makes, and some that only tests use (up_s, stamps_ms, pauses, fq);
 * here a wrong one only ends the run.
 *
 * Exit status: 0 done; 2 the scenario cannot be run; 3 a controller set a window that nothing may set.
 */
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ccbpf/flow.h"
#include "download.h"
#include "peers.h"
#include "programs.h"
#include "traffic.h"

#define FLOWS_MOST 256
#define STREAMS_MOST 16
#define CHANGES_MOST 64

struct change {
	u64 at_ns;
	u64 delay_ns; /* one way */
};

struct switching {
	struct flow *flow;
	const char *controller;
};

struct scenario {
	const char *programs;
	u64 seed, seconds_ns, sample_ns;
	struct way forward, reverse;
	u64 base_delay_ns; /* of the link, one way, as it is now */
	struct flow *flows;
	u32 n_flows;
	struct stream streams[STREAMS_MOST];
	u32 n_streams;
	u64 *counted; /* segments of each flow at the last sample */
	struct json_object *samples, *backlog, *records;
	struct json_object **received;
};

static struct scenario run;

/* --- reading ------------------------------------------------------------ */

static struct json_object *member(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(o, key, &value);
	return value;
}

static double number(struct json_object *o, const char *key)
{
	return json_object_get_double(member(o, key));
}

static u64 ns_of_s(double s)
{
	return (u64)llround(s * 1e9);
}

static const char *word(struct json_object *o, const char *key)
{
	const char *text = json_object_get_string(member(o, key));

	return text ? text : "";
}

static void read_stalls(struct queue *q, struct json_object *list)
{
	for (size_t i = 0; list && i < json_object_array_length(list) && i < STALLS_MOST; i++) {
		struct json_object *pair = json_object_array_get_idx(list, i);
		u64 from_ns = engine_start_ns +
			      ns_of_s(json_object_get_double(json_object_array_get_idx(pair, 0)));

		q->stalls[i].from_ns = from_ns;
		q->stalls[i].to_ns =
			from_ns +
			ns_of_s(json_object_get_double(json_object_array_get_idx(pair, 1)));
		q->n_stalls++;
	}
}

static void read_queue(struct queue *q, struct json_object *o)
{
	if (!o)
		return;
	q->ns_per_byte = 8000 / number(o, "rate_mbit");
	q->limit_packets = (u32)number(o, "limit_packets");
	q->limit_bytes = (u64)number(o, "limit_bytes");
	q->priority = number(o, "priority") > 0;
	q->mark_bytes = (u64)number(o, "mark_bytes");
	q->mark_shift = (u32)number(o, "mark_shift");
	q->policer_bytes = q->policer_tokens = number(o, "policer_bytes");
	q->policer_filled_ns = engine_start_ns;
	read_stalls(q, member(o, "stalls"));
}

static void read_nf_red(struct queue *q, struct json_object *o)
{
	struct ccbpf_aqm_config config = { 0 };

	if (!o)
		return;
	config.limit_bytes = (u32)number(o, "limit_bytes");
	config.packet_bytes = (u32)number(o, "packet_bytes");
	config.packet_ns = (u32)(config.packet_bytes * q->ns_per_byte);
	config.average_shift = (u32)number(o, "average_shift");
	config.nf_min = (u32)number(o, "nf_min");
	config.nf_max = (u32)number(o, "nf_max");
	config.std_min = (u32)number(o, "std_min");
	config.std_max = (u32)number(o, "std_max");
	config.dscps[CCBPF_AQM_nf] = 1ull << 1;
	config.dscps[CCBPF_AQM_probe] = 1ull << (u32)number(o, "probe_dscp");
	program_queue(run.programs, q, &config);
}

static void change_delay(void *unused, void *delay)
{
	(void)unused;
	run.base_delay_ns = (u64)(unsigned long)delay;
}

static void read_changes(struct json_object *list)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *pair = json_object_array_get_idx(list, i);
		double at_s = json_object_get_double(json_object_array_get_idx(pair, 0));
		double rtt_ms = json_object_get_double(json_object_array_get_idx(pair, 1));

		engine_at(engine_start_ns + ns_of_s(at_s), change_delay, NULL,
			  (void *)(unsigned long)ns_of_s(rtt_ms / 2e3));
	}
}

static void read_way(struct way *w, struct json_object *o)
{
	if (!o)
		return;
	w->loss = number(o, "loss");
	w->duplicate = number(o, "duplicate");
	w->reorder = number(o, "reorder");
	w->jitter_ns = ns_of_s(number(o, "jitter_ms") / 1e3);
	w->in_order = number(o, "in_order") > 0;
	w->aggregated = number(o, "aggregated") > 0;
	w->late = number(o, "late");
	w->late_ns = ns_of_s(number(o, "late_ms") / 1e3);
}

static void read_link(struct json_object *o)
{
	way_init(&run.forward, run.seed, 10);
	way_init(&run.reverse, run.seed, 11);
	run.reverse.delay_first = true;
	run.base_delay_ns = ns_of_s(number(o, "rtt_ms") / 2e3);
	read_queue(&run.forward.queue, member(o, "queue"));
	read_queue(&run.reverse.queue, member(o, "reverse_queue"));
	read_nf_red(&run.forward.queue, member(o, "nf_red"));
	read_way(&run.forward, member(o, "forward"));
	read_way(&run.reverse, member(o, "reverse"));
	read_changes(member(o, "rtt_changes"));
}

/* --- flows -------------------------------------------------------------- */

static void begin(void *flow, void *unused)
{
	(void)unused;
	flow_start(flow);
}

static void end(void *flow, void *unused)
{
	(void)unused;
	flow_stop(flow);
}

static void switch_controller(void *argument, void *unused)
{
	struct switching *s = argument;

	(void)unused;
	flow_switch(s->flow, program_find(run.programs, s->controller));
}

static void write_some(void *flow, void *unused)
{
	struct flow *f = flow;

	(void)unused;
	if (!(f->app_segments_per_s > 0))
		return;
	f->queued++;
	flow_publish_seqs(f);
	output_push(f);
	engine_at(engine_now_ns + (u64)(1e9 / f->app_segments_per_s), write_some, f, NULL);
}

static void go_on(void *flow, void *unused)
{
	struct flow *f = flow;

	(void)unused;
	f->queued = FLOW_UNLIMITED;
	flow_publish_seqs(f);
	output_push(f);
}

/* `pauses`, pairs [at, length] in s: meanwhile the application has nothing to send. Not with app_mbit. */
static void read_pauses(struct flow *f, struct json_object *list)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *pair = json_object_array_get_idx(list, i);
		double at_s = json_object_get_double(json_object_array_get_idx(pair, 0));
		double for_s = json_object_get_double(json_object_array_get_idx(pair, 1));

		engine_at(engine_start_ns + ns_of_s(at_s), end, f, NULL);
		engine_at(engine_start_ns + ns_of_s(at_s + for_s), go_on, f, NULL);
	}
}

static void read_switches(struct flow *f, struct json_object *list)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *pair = json_object_array_get_idx(list, i);
		struct switching *s = malloc(sizeof(*s));

		if (!s)
			exit(2);
		s->flow = f;
		s->controller = json_object_get_string(json_object_array_get_idx(pair, 1));
		program_find(run.programs, s->controller);
		engine_at(engine_start_ns + ns_of_s(json_object_get_double(
						    json_object_array_get_idx(pair, 0))),
			  switch_controller, s, NULL);
	}
}

/* `stamps_ms`: what TCP's timestamps of both hosts read at the beginning, if not a random number. */
static void set_stamps(struct flow *f, struct json_object *stamps)
{
	u64 us = (u64)json_object_get_int64(stamps) * 1000;

	if (!stamps)
		return;
	f->clock_offset_us = us - engine_start_ns / NS_PER_US;
	f->peer.clock_offset_us = us;
}

static void read_flow(struct flow *f, u32 no, struct json_object *o, double segment_bytes)
{
	struct json_object *own = member(o, "rtt_ms");
	double app_mbit = number(o, "app_mbit"), stop_s = number(o, "stop_s");
	bool reverse = number(o, "reverse") > 0;
	u64 start_ns = engine_start_ns + ns_of_s(number(o, "start_s"));

	f->number = no;
	snprintf(f->name, sizeof(f->name), "%s", word(o, "name"));
	f->tp.mss_cache = (u32)segment_bytes;
	flow_init(f, program_find(run.programs, word(o, "controller")), run.seed);
	set_stamps(f, member(o, "stamps_ms"));
	f->forward = reverse ? &run.reverse : &run.forward;
	f->reverse = reverse ? &run.forward : &run.reverse;
	f->delay_ns = own ? ns_of_s(json_object_get_double(own) / 2e3) : run.base_delay_ns;
	f->base_delay_ns = own ? NULL : &run.base_delay_ns;
	f->queued = app_mbit > 0 ? 0 : FLOW_UNLIMITED;
	f->app_segments_per_s = app_mbit * 1e6 / 8 / segment_bytes;
	f->peer.window = number(o, "window_packets") > 0 ? (u32)number(o, "window_packets")
							 : FLOW_UNLIMITED >> 1;
	f->window = f->peer.window;
	if (number(o, "download") > 0)
		download_begin(f, word(o, "receiver"));
	f->peer.clock_drift = number(o, "drift_ppm") / 1e6;
	f->peer.lies_ns = number(o, "lies_s") > 0 ? engine_start_ns + ns_of_s(number(o, "lies_s"))
						  : 0;
	f->peer.least_ms = UINT32_MAX;
	f->fq = number(o, "fq") > 0;
	f->ecn = number(o, "ecn") > 0;
	f->background = number(o, "background") > 0;
	f->dscp = (u8)number(o, "dscp");
	f->tp.snd_ssthresh = (u32)number(o, "ssthresh");
	read_switches(f, member(o, "switches"));
	read_pauses(f, member(o, "pauses"));
	engine_at(start_ns, begin, f, NULL);
	if (app_mbit > 0)
		engine_at(start_ns, write_some, f, NULL);
	if (stop_s > 0)
		engine_at(engine_start_ns + ns_of_s(stop_s), end, f, NULL);
}

static void read_flows(struct json_object *list, double segment_bytes)
{
	run.n_flows = (u32)json_object_array_length(list);
	if (run.n_flows > FLOWS_MOST) {
		fprintf(stderr, "simulator: %u flows; %d are possible\n", run.n_flows, FLOWS_MOST);
		exit(2);
	}
	run.flows = calloc(run.n_flows ?: 1, sizeof(*run.flows));
	run.counted = calloc(run.n_flows ?: 1, sizeof(*run.counted));
	run.received = calloc(run.n_flows ?: 1, sizeof(*run.received));
	if (!run.flows || !run.counted || !run.received)
		exit(2);
	for (u32 i = 0; i < run.n_flows; i++) {
		read_flow(&run.flows[i], i, json_object_array_get_idx(list, i), segment_bytes);
		run.received[i] = json_object_new_array();
	}
}

static void read_streams(struct json_object *list)
{
	run.n_streams = list ? (u32)json_object_array_length(list) : 0;
	if (run.n_streams > STREAMS_MOST) {
		fprintf(stderr, "simulator: %u streams of UDP; %d are possible\n", run.n_streams,
			STREAMS_MOST);
		exit(2);
	}
	for (u32 i = 0; i < run.n_streams; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		struct stream *s = &run.streams[i];

		s->way = &run.forward;
		s->delay_ns = &run.base_delay_ns;
		s->bytes = (u32)number(o, "frame_bytes");
		s->per_s = number(o, "rate_mbit") * 1e6 / 8 / s->bytes;
		s->poisson = number(o, "poisson") > 0;
		s->period_ns = ns_of_s(number(o, "period_s"));
		s->duty = number(o, "duty");
		s->start_ns = engine_start_ns + ns_of_s(number(o, "start_s"));
		s->stop_ns = engine_start_ns + ns_of_s(number(o, "stop_s"));
		random_seed(&s->random, run.seed, 100 + i);
		stream_begin(s);
	}
}

static void read_parameters(struct json_object *o)
{
	if (!o)
		return;
	json_object_object_foreach(o, name, places)
	{
		program_find(run.programs, name);
		json_object_object_foreach(places, place, value)
		{
			program_set(name, (unsigned int)atoi(place),
				    (u32)json_object_get_int64(value));
		}
	}
}

/* --- sampling ----------------------------------------------------------- */

static void sample_records(double at_s)
{
	for (u32 i = 0; run.records && i < run.n_flows; i++) {
		const struct ccbpf_flow *r = program_record(&run.flows[i]);
		struct json_object *o;

		if (!r)
			continue;
		o = json_object_new_object();
		json_object_object_add(o, "at_s", json_object_new_double(at_s));
		json_object_object_add(o, "flow", json_object_new_int((int)i));
		json_object_object_add(o, "phase", json_object_new_int(r->phase));
		json_object_object_add(o, "cwnd", json_object_new_int64(r->cwnd));
		json_object_object_add(o, "rtt_min_us", json_object_new_int64(r->rtt_min_us));
		json_object_object_add(o, "delay_us", json_object_new_int64(r->delay_us));
		json_object_object_add(o, "delay_smoothed_us",
				       json_object_new_int64(r->delay_smoothed_us));
		json_object_object_add(o, "delay_threshold_us",
				       json_object_new_int64(r->delay_threshold_us));
		json_object_object_add(o, "delay_max_us", json_object_new_int64(r->delay_max_us));
		json_object_object_add(o, "delay_source", json_object_new_int(r->delay_source));
		json_object_array_add(run.records, o);
	}
}

static void sample(void *unused, void *unused2)
{
	const struct queue *q = &run.forward.queue;
	double at_s = (double)(engine_now_ns - engine_start_ns) / 1e9;

	(void)unused;
	(void)unused2;
	for (u32 i = 0; i < run.n_flows; i++) {
		u64 now = run.flows[i].peer.delivered;

		json_object_array_add(run.received[i],
				      json_object_new_int64((s64)(now - run.counted[i])));
		run.counted[i] = now;
	}
	json_object_array_add(run.backlog, json_object_new_int64((s64)(q->bytes[0] + q->bytes[1])));
	sample_records(at_s);
	engine_at(engine_now_ns + run.sample_ns, sample, NULL, NULL);
}

/* --- the result --------------------------------------------------------- */

static struct json_object *flow_result(u32 i)
{
	struct json_object *o = json_object_new_object();
	const struct flow *f = &run.flows[i];

	json_object_object_add(o, "name", json_object_new_string(f->name));
	json_object_object_add(o, "segments", run.received[i]);
	json_object_object_add(o, "retransmits", json_object_new_int64(f->tp.total_retrans));
	json_object_object_add(o, "recoveries", json_object_new_int64(f->recoveries));
	json_object_object_add(o, "timeouts", json_object_new_int64(f->timeouts));
	json_object_object_add(o, "undone", json_object_new_int64(f->undone));
	json_object_object_add(o, "stamp_ms", json_object_new_int64(flow_stamp(f, engine_now_ns)));
	return o;
}

static void print_result(void)
{
	struct json_object *o = json_object_new_object(), *flows = json_object_new_array(),
			   *streams = json_object_new_array();

	for (u32 i = 0; i < run.n_flows; i++)
		json_object_array_add(flows, flow_result(i));
	for (u32 i = 0; i < run.n_streams; i++) {
		struct json_object *s = json_object_new_object();

		json_object_object_add(s, "sent", json_object_new_int64((s64)run.streams[i].sent));
		json_object_object_add(s, "received",
				       json_object_new_int64((s64)run.streams[i].received));
		json_object_array_add(streams, s);
	}
	json_object_object_add(o, "up_us", json_object_new_int64((s64)(engine_now_ns / NS_PER_US)));
	json_object_object_add(o, "flows", flows);
	json_object_object_add(o, "streams", streams);
	json_object_object_add(o, "backlog", run.backlog);
	json_object_object_add(o, "drops", json_object_new_int64((s64)run.forward.queue.drops));
	json_object_object_add(o, "marks", json_object_new_int64((s64)run.forward.queue.marks));
	if (run.records)
		json_object_object_add(o, "records", run.records);
	printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
}

int main(int argc, char **argv)
{
	struct json_object *o;

	if (argc != 2) {
		fprintf(stderr, "usage: sim PROGRAMS < scenario.json\n");
		return 2;
	}
	run.programs = argv[1];
	o = json_object_from_fd(0);
	if (!o) {
		fprintf(stderr, "simulator: the scenario is no JSON: %s", json_util_get_last_err());
		return 2;
	}
	engine_begin(ns_of_s(member(o, "up_s") ? number(o, "up_s") : ENGINE_UP_S));
	run.seed = (u64)number(o, "seed");
	run.seconds_ns = ns_of_s(number(o, "seconds"));
	run.sample_ns = ns_of_s(number(o, "sample_s"));
	run.backlog = json_object_new_array();
	run.records = number(o, "records") > 0 ? json_object_new_array() : NULL;
	program_seed(run.seed);
	program_records(run.records);
	program_trace(json_object_get_string(member(o, "trace")));
	read_link(member(o, "link"));
	read_flows(member(o, "flows"), number(o, "segment_bytes"));
	read_streams(member(o, "udp"));
	read_parameters(member(o, "parameters"));
	engine_at(engine_start_ns + run.sample_ns, sample, NULL, NULL);
	engine_run(engine_start_ns + run.seconds_ns);
	print_result();
	return 0;
}
