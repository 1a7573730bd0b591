// SPDX-License-Identifier: GPL-2.0-only
/* See programs.h. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ccbpf/controllers.h"
#include "ccbpf/event.h"
#include "ccbpf/flow.h"
#include "ccbpf/stats.h"
#include "peers.h"
#include "programs.h"

#define PROGRAMS_MOST 16
#define IP_TOS 1
#define SOL_IP 0
#define NF_RED "nf_red"
#define TC_ACT_SHOT 2
#define ETHERNET_HEADER 14
#define IPV4_TCP 6
#define HEAD_BYTES 64

struct program {
	struct controller controller;
	void *library;
	void *flows, *stats, *events, *listener, *counts; /* its maps' addresses */
	u32 *params;
	struct ccbpf_stats counters;
};

static struct program programs[PROGRAMS_MOST];
static unsigned int n_programs;
static FILE *trace;
static bool records;
static struct random program_random;
static u64 listening_until = ~0ull, not_listening;

static const char *const kinds[CCBPF_KINDS] = {
#define X(number, name, access, title, source) [number] = #name,
	CCBPF_CONTROLLERS(X)
#undef X
};

static const char *const events_words[] = {
#define X(number, name, word, text) [number] = word,
	CCBPF_EVENTS(X)
#undef X
};

void program_seed(u64 seed)
{
	random_seed(&program_random, seed, 2);
}

/* --- loading ------------------------------------------------------------ */

static struct program *program_load(const char *directory, const char *name)
{
	struct program *p = &programs[n_programs];
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.so", directory, name);
	if (n_programs == PROGRAMS_MOST) {
		fprintf(stderr, "simulator: more than %d programs at once\n", PROGRAMS_MOST);
		exit(2);
	}
	p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!p->library) {
		fprintf(stderr, "simulator: no controller %s: %s\n", name, dlerror());
		exit(2);
	}
	p->flows = dlsym(p->library, "flows");
	p->stats = dlsym(p->library, "stats");
	p->events = dlsym(p->library, "events");
	p->listener = dlsym(p->library, "listener");
	p->counts = dlsym(p->library, "counts");
	p->params = dlsym(p->library, "params");
	n_programs++;
	return p;
}

static void program_open(struct program *p, const char *name)
{
	const struct tcp_congestion_ops *ops = dlsym(p->library, name);

	if (!ops || !ops->init || !ops->cong_avoid || !ops->ssthresh || !ops->undo_cwnd) {
		fprintf(stderr, "simulator: %s.so has no ops table of a controller\n", name);
		exit(2);
	}
	p->controller = (struct controller){
		.ours = true,
		.ssthresh = ops->ssthresh,
		.cong_avoid = ops->cong_avoid,
		.undo_cwnd = ops->undo_cwnd,
		.set_state = ops->set_state,
		.cwnd_event = ops->cwnd_event,
		.in_ack_event = ops->in_ack_event,
		.min_tso_segs = ops->min_tso_segs,
		.init = ops->init,
		.release = ops->release,
	};
	snprintf(p->controller.name, sizeof(p->controller.name), "%s", name);
}

static struct program *program_loaded(const char *name)
{
	for (unsigned int i = 0; i < n_programs; i++)
		if (strcmp(programs[i].controller.name, name) == 0)
			return &programs[i];
	return NULL;
}

const struct controller *program_find(const char *directory, const char *name)
{
	const struct controller *peer = peer_find(name);
	struct program *p = peer ? NULL : program_loaded(name);

	if (peer)
		return peer;
	if (!p) {
		p = program_load(directory, name);
		program_open(p, name);
	}
	return &p->controller;
}

void program_set(const char *name, unsigned int place, u32 value)
{
	struct program *p = program_loaded(name);

	if (p && p->params)
		p->params[place] = value;
}

void program_trace(const char *path)
{
	trace = path ? fopen(path, "w") : NULL;
	if (path && !trace) {
		perror(path);
		exit(2);
	}
}

/* --- maps --------------------------------------------------------------- */

struct record {
	struct ccbpf_flow value;
	u64 key;
	struct record *next;
};

static struct record *all_records;

void program_records(bool on)
{
	records = on;
}

static struct record *record_find(u64 key)
{
	struct record *r = all_records;

	while (r && r->key != key)
		r = r->next;
	return r;
}

const struct ccbpf_flow *program_record(struct flow *f)
{
	struct record *r = record_find((u64)(unsigned long)sock_of(f));

	return r ? &r->value : NULL;
}

static struct program *program_of(const void *map)
{
	for (unsigned int i = 0; i < n_programs; i++)
		if (map == programs[i].flows || map == programs[i].stats ||
		    map == programs[i].events || map == programs[i].listener ||
		    map == programs[i].counts)
			return &programs[i];
	return NULL;
}

void *sim_map_lookup(void *map, const void *key)
{
	struct program *p = program_of(map);
	static struct ccbpf_aqm_counts queue_counts;

	if (!p)
		return NULL;
	if (map == p->stats)
		return &p->counters;
	if (map == p->listener)
		return trace ? &listening_until : &not_listening;
	if (map == p->counts)
		return &queue_counts;
	if (map == p->flows && records) {
		struct record *r = record_find(*(const u64 *)key);

		return r ? &r->value : NULL;
	}
	return NULL;
}

long sim_map_update(void *map, const void *key, const void *value, __u64 flags)
{
	struct program *p = program_of(map);
	struct record *r;

	(void)flags;
	if (!p || map != p->flows || !records)
		return 0;
	r = record_find(*(const u64 *)key);
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return -1;
		r->key = *(const u64 *)key;
		r->next = all_records;
		all_records = r;
	}
	memcpy(&r->value, value, sizeof(r->value));
	return 0;
}

long sim_map_delete(void *map, const void *key)
{
	(void)map;
	(void)key;
	return 0;
}

static struct ccbpf_event event_slot;

void *sim_ringbuf_reserve(void *map, __u64 size)
{
	(void)map;
	return trace && size <= sizeof(event_slot) ? &event_slot : NULL;
}

void sim_ringbuf_submit(void *record)
{
	const struct ccbpf_event *e = record;
	size_t n = sizeof(events_words) / sizeof(events_words[0]);
	const char *word = e->type < n && events_words[e->type] ? events_words[e->type] : "?";

	fprintf(trace,
		"{\"at_s\": %.6f, \"flow\": %u, \"controller\": \"%s\", \"event\": \"%s\", \"cwnd\": %u, \"ssthresh\": %u, "
		"\"rtt_us\": %u, \"delay_us\": %u, \"a\": %u, \"b\": %u}\n",
		(double)(e->time_ns - engine_start_ns) / 1e9,
		flow_of((struct sock *)(unsigned long)e->flow)->number,
		e->kind < CCBPF_KINDS && kinds[e->kind] ? kinds[e->kind] : "?", word, e->cwnd,
		e->ssthresh, e->rtt_us, e->delay_us, e->a, e->b);
}

/* --- helpers ------------------------------------------------------------ */

void *sim_storage(void *map, void *sk, unsigned long size, _Bool create)
{
	struct flow *f = sk;

	if (!f->storage && create) {
		f->storage = calloc(1, size);
		f->storage_map = map;
	}
	return f->storage && f->storage_map == map ? f->storage : NULL;
}

long sim_storage_delete(void *map, void *sk)
{
	struct flow *f = sk;

	(void)map;
	free(f->storage);
	f->storage = NULL;
	return 0;
}

__u64 sim_now_ns(void)
{
	return engine_now_ns;
}

__u32 sim_random(void)
{
	return (u32)(random_bits(&program_random) >> 32);
}

long sim_getsockopt(void *sk, int level, int option, void *value, int size)
{
	if (level != SOL_IP || option != IP_TOS || size != sizeof(int))
		return -1;
	*(int *)value = ((struct flow *)sk)->dscp << 2;
	return 0;
}

long sim_setsockopt(void *sk, int level, int option, void *value, int size)
{
	if (level != SOL_IP || option != IP_TOS || size != sizeof(int))
		return -1;
	((struct flow *)sk)->dscp = (u8)(*(int *)value >> 2);
	return 0;
}

/* --- nf_red ------------------------------------------------------------- */

/* A tc program's context holds addresses of 32 bits: its packet lies below 4 GiB. */
struct skb_room {
	struct __sk_buff ctx;
	struct sk_buff skb;
	struct net_device dev;
	struct Qdisc qdisc;
	u8 head[HEAD_BYTES];
};

static struct skb_room *room;
static int (*nf_red)(struct __sk_buff *ctx);

void *bpf_cast_to_kern_ctx(void *ctx)
{
	(void)ctx;
	return &room->skb;
}

long sim_skb_load(void *skb, __u32 at, void *to, __u32 size)
{
	(void)skb;
	if (at + size > HEAD_BYTES)
		return -1;
	memcpy(to, room->head + at, size);
	return 0;
}

long sim_skb_store(void *skb, __u32 at, const void *from, __u32 size)
{
	(void)skb;
	if (at + size > HEAD_BYTES)
		return -1;
	memcpy(room->head + at, from, size);
	return 0;
}

/* An Ethernet frame with the two fields that count: DSCP with ECN, and the protocol. */
static void room_fill(const struct queue *q, const struct packet *p)
{
	u8 *ip = room->head + ETHERNET_HEADER;

	memset(room->head, 0, HEAD_BYTES);
	ip[0] = 0x45;
	ip[1] = (u8)(p->dscp << 2 | (p->ce ? 3 : p->ect ? 2 : 0));
	ip[9] = IPV4_TCP;
	room->ctx.len = room->ctx.wire_len = p->bytes;
	room->qdisc.qstats.backlog = (u32)(q->bytes[0] + q->bytes[1]);
}

static bool queue_early(struct queue *q, struct packet *p)
{
	bool kept;

	room_fill(q, p);
	kept = nf_red(&room->ctx) != TC_ACT_SHOT;
	if (kept && !p->ce && (room->head[ETHERNET_HEADER + 1] & 3) == 3) {
		p->ce = true;
		q->marks++;
	}
	return kept;
}

void program_queue(const char *directory, struct queue *q, const struct ccbpf_aqm_config *config)
{
	struct program *p = program_load(directory, NF_RED);
	struct ccbpf_aqm_config *own = dlsym(p->library, "config");

	nf_red = (int (*)(struct __sk_buff *))dlsym(p->library, NF_RED);
	room = mmap(NULL, sizeof(*room), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (!own || !nf_red || room == MAP_FAILED) {
		fprintf(stderr, "simulator: nf_red cannot be used here\n");
		exit(2);
	}
	*own = *config;
	room->ctx.protocol = 0x0008; /* ETH_P_IP, network byte order */
	room->ctx.data = (u32)(unsigned long)room->head;
	room->ctx.data_end = room->ctx.data + HEAD_BYTES;
	room->skb.dev = &room->dev;
	room->skb.head = room->skb.data = room->head;
	room->skb.network_header = ETHERNET_HEADER;
	room->dev.qdisc = &room->qdisc;
	q->early = queue_early;
}
