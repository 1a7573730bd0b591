// SPDX-License-Identifier: GPL-2.0-only
/* See path.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "path.h"

/* --- packets ------------------------------------------------------------ */

static struct packet *spare;

struct packet *packet_new(void)
{
	struct packet *p = spare;

	if (p)
		spare = p->next;
	else
		p = malloc(sizeof(*p));
	if (!p) {
		fprintf(stderr, "simulator: out of memory for packets\n");
		exit(2);
	}
	memset(p, 0, sizeof(*p));
	return p;
}

void packet_free(struct packet *p)
{
	p->next = spare;
	spare = p;
}

/* --- the queue ---------------------------------------------------------- */

static void queue_serve(struct queue *q);

/* When may the next transmission begin? */
static u64 queue_free_ns(const struct queue *q)
{
	for (unsigned int i = 0; i < q->n_stalls; i++)
		if (engine_now_ns >= q->stalls[i].from_ns && engine_now_ns < q->stalls[i].to_ns)
			return q->stalls[i].to_ns;
	return engine_now_ns;
}

static void queue_sent(void *owner, void *unused)
{
	struct queue *q = owner;
	struct packet *p = q->sending;

	(void)unused;
	q->busy = false;
	q->sending = NULL;
	q->served_bytes += p->bytes;
	q->leave(q, p);
	queue_serve(q);
}

static void queue_resume(void *owner, void *unused)
{
	struct queue *q = owner;

	(void)unused;
	q->busy = false;
	queue_serve(q);
}

static void queue_serve(struct queue *q)
{
	u64 free_ns = queue_free_ns(q);
	int band = q->head[0] ? 0 : 1;
	struct packet *p = q->head[band];

	if (q->busy || !p)
		return;
	q->busy = true;
	if (free_ns > engine_now_ns) {
		engine_at(free_ns, queue_resume, q, NULL);
		return;
	}
	q->head[band] = p->next;
	q->bytes[band] -= p->bytes;
	q->packets[band]--;
	q->sending = p;
	engine_at(engine_now_ns + (u64)(p->bytes * q->ns_per_byte), queue_sent, q, NULL);
}

/* A token bucket without a queue: does the packet conform? */
static bool queue_conforms(struct queue *q, const struct packet *p)
{
	q->policer_tokens += (double)(engine_now_ns - q->policer_filled_ns) / q->ns_per_byte;
	q->policer_filled_ns = engine_now_ns;
	if (q->policer_tokens > q->policer_bytes)
		q->policer_tokens = q->policer_bytes;
	if (q->policer_tokens < p->bytes)
		return false;
	q->policer_tokens -= p->bytes;
	return true;
}

/* RED with both thresholds at one length (the lab's "marking" queue), which drops nothing early. */
static void queue_mark(struct queue *q, struct packet *p)
{
	double length = (double)(q->bytes[0] + q->bytes[1]);

	q->average += (length - q->average) / (double)(1u << q->mark_shift);
	if (q->average > (double)q->mark_bytes && p->ect && !p->ce) {
		p->ce = true;
		q->marks++;
	}
}

static bool queue_full(const struct queue *q, const struct packet *p, int band)
{
	if (q->limit_packets && q->packets[band] >= q->limit_packets)
		return true;
	return q->limit_bytes && q->bytes[band] + p->bytes > q->limit_bytes;
}

static void queue_drop(struct queue *q, struct packet *p)
{
	q->drops++;
	packet_free(p);
}

static void queue_put(struct queue *q, struct packet *p)
{
	int band = q->priority && p->low;

	if (q->policer_bytes > 0) {
		if (queue_conforms(q, p))
			q->leave(q, p);
		else
			queue_drop(q, p);
		return;
	}
	if (q->early && !q->early(q, p)) {
		queue_drop(q, p);
		return;
	}
	if (q->mark_bytes)
		queue_mark(q, p);
	if (queue_full(q, p, band)) {
		queue_drop(q, p);
		return;
	}
	p->next = NULL;
	if (q->head[band])
		q->tail[band]->next = p;
	else
		q->head[band] = p;
	q->tail[band] = p;
	q->bytes[band] += p->bytes;
	q->packets[band]++;
	queue_serve(q);
}

/* --- the delay ---------------------------------------------------------- */

static void way_arrive(void *owner, void *packet)
{
	struct packet *p = packet;
	struct way *w = owner;

	if (w->delay_first && w->queue.ns_per_byte > 0)
		queue_put(&w->queue, p);
	else
		p->arrive(p);
}

/* A delay of up to 2 * jitter_ns, by any kind of jitter. */
static u64 way_noise_ns(struct way *w)
{
	return (u64)(2 * random_unit(&w->random) * (double)w->jitter_ns);
}

/* A packet that is ready at `at_ns` leaves with the next slot. */
static u64 way_slot_ns(struct way *w, u64 at_ns)
{
	while (w->slot_ns < at_ns)
		w->slot_ns = (w->slot_ns + 4 * w->jitter_ns < at_ns ? at_ns : w->slot_ns) +
			     way_noise_ns(w) + 1;
	return w->slot_ns;
}

static u64 way_arrival_ns(struct way *w, const struct packet *p)
{
	u64 at_ns = engine_now_ns + p->delay_ns;

	if (w->reorder > 0 && random_unit(&w->random) < w->reorder)
		return engine_now_ns;
	if (w->jitter_ns) {
		at_ns = at_ns > engine_now_ns + w->jitter_ns ? at_ns - w->jitter_ns : engine_now_ns;
		at_ns = w->aggregated ? way_slot_ns(w, at_ns) : at_ns + way_noise_ns(w);
		if (w->in_order && at_ns < *p->last_arrival_ns)
			at_ns = *p->last_arrival_ns;
	}
	*p->last_arrival_ns = at_ns;
	if (w->late > 0 && random_unit(&w->random) < w->late)
		at_ns += w->late_ns;
	return at_ns;
}

static void way_delay(struct way *w, struct packet *p)
{
	if (w->loss > 0 && random_unit(&w->random) < w->loss) {
		w->lost++;
		packet_free(p);
		return;
	}
	if (w->duplicate > 0 && random_unit(&w->random) < w->duplicate) {
		struct packet *copy = packet_new();

		*copy = *p;
		engine_at(way_arrival_ns(w, copy), way_arrive, w, copy);
	}
	engine_at(way_arrival_ns(w, p), way_arrive, w, p);
}

static void way_left_queue(struct queue *q, struct packet *p)
{
	if (q->way->delay_first)
		p->arrive(p);
	else
		way_delay(q->way, p);
}

void way_init(struct way *w, u64 seed, u64 stream)
{
	memset(w, 0, sizeof(*w));
	random_seed(&w->random, seed, stream);
	w->queue.leave = way_left_queue;
	w->queue.way = w;
}

void way_send(struct way *w, struct packet *p)
{
	if (w->delay_first || !(w->queue.ns_per_byte > 0))
		way_delay(w, p);
	else
		queue_put(&w->queue, p);
}
