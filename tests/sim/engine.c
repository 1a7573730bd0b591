// SPDX-License-Identifier: GPL-2.0-only
/* See engine.h. */
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

struct event {
	u64 at_ns;
	u64 order;
	void (*run)(void *owner, void *argument);
	void *owner;
	void *argument;
};

u64 engine_start_ns, engine_now_ns;

static struct event *heap;
static size_t heap_size, heap_room;
static u64 scheduled;

void engine_begin(u64 start_ns)
{
	engine_start_ns = engine_now_ns = start_ns;
}

/* --- events ------------------------------------------------------------- */

static bool earlier(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void engine_at(u64 at_ns, void (*run)(void *, void *), void *owner, void *argument)
{
	struct event e = { at_ns > engine_now_ns ? at_ns : engine_now_ns, scheduled++, run, owner,
			   argument };
	size_t i = heap_size++;

	if (heap_size > heap_room) {
		heap_room = heap_room ? 2 * heap_room : 1024;
		heap = realloc(heap, heap_room * sizeof(*heap));
		if (!heap) {
			fprintf(stderr, "simulator: out of memory with %zu events waiting\n",
				heap_size);
			exit(2);
		}
	}
	for (; i && earlier(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event next_event(void)
{
	struct event first = heap[0], last = heap[--heap_size];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < heap_size) {
		if (child + 1 < heap_size && earlier(&heap[child + 1], &heap[child]))
			child++;
		if (earlier(&last, &heap[child]))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
}

void engine_run(u64 until_ns)
{
	while (heap_size && heap[0].at_ns <= until_ns) {
		struct event e = next_event();

		engine_now_ns = e.at_ns;
		e.run(e.owner, e.argument);
	}
	engine_now_ns = until_ns;
}

/* --- timers ------------------------------------------------------------- */

static void timer_due(void *owner, void *argument);

static void timer_queue(struct timer *t)
{
	t->queued_ns = t->at_ns;
	engine_at(t->at_ns, timer_due, t, (void *)(unsigned long)t->at_ns);
}

/* An event for a time that is no longer queued_ns was replaced by an earlier one. */
static void timer_due(void *owner, void *argument)
{
	struct timer *t = owner;

	if (t->queued_ns != (u64)(unsigned long)argument)
		return;
	t->queued_ns = 0;
	if (!t->at_ns)
		return;
	if (t->at_ns > engine_now_ns) {
		timer_queue(t);
		return;
	}
	t->at_ns = 0;
	t->expire(t->owner);
}

void timer_init(struct timer *t, void (*expire)(void *), void *owner)
{
	*t = (struct timer){ .expire = expire, .owner = owner };
}

void timer_set(struct timer *t, u64 at_ns)
{
	t->at_ns = at_ns > engine_now_ns ? at_ns : engine_now_ns;
	if (!t->queued_ns || t->at_ns < t->queued_ns)
		timer_queue(t);
}

void timer_clear(struct timer *t)
{
	t->at_ns = 0;
}

/* --- random numbers ----------------------------------------------------- */

static u64 splitmix(u64 *x)
{
	u64 z = *x += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void random_seed(struct random *r, u64 seed, u64 stream)
{
	u64 x = seed * 0xd1342543de82ef95ull + stream;

	for (int i = 0; i < 4; i++)
		r->state[i] = splitmix(&x);
}

static u64 rotated(u64 v, int by)
{
	return v << by | v >> (64 - by);
}

u64 random_bits(struct random *r)
{
	u64 *s = r->state, result = rotated(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotated(s[3], 45);
	return result;
}

double random_unit(struct random *r)
{
	return (double)(random_bits(r) >> 11) * 0x1p-53;
}
