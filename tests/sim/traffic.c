// SPDX-License-Identifier: GPL-2.0-only
/* See traffic.h. */
#include <math.h>
#include <stddef.h>

#include "traffic.h"

static void stream_arrive(struct packet *p)
{
	struct stream *s = p->owner;

	s->received++;
	packet_free(p);
}

/* When the wave is off: its next beginning. */
static u64 stream_on_ns(const struct stream *s, u64 at_ns)
{
	u64 into_ns;

	if (!s->period_ns)
		return at_ns;
	into_ns = (at_ns - s->start_ns) % s->period_ns;
	if ((double)into_ns < s->duty * (double)s->period_ns)
		return at_ns;
	return at_ns - into_ns + s->period_ns;
}

static void stream_send(void *stream, void *unused)
{
	struct stream *s = stream;
	double gap_s = 1 / s->per_s;
	struct packet *p;

	(void)unused;
	if (engine_now_ns >= s->stop_ns)
		return;
	p = packet_new();
	p->arrive = stream_arrive;
	p->owner = s;
	p->delay_ns = *s->delay_ns;
	p->last_arrival_ns = &s->last_arrival_ns;
	p->bytes = s->bytes;
	s->sent++;
	way_send(s->way, p);
	if (s->poisson)
		gap_s *= -log(1 - random_unit(&s->random));
	engine_at(stream_on_ns(s, engine_now_ns + (u64)(gap_s * 1e9)), stream_send, s, NULL);
}

void stream_begin(struct stream *s)
{
	engine_at(s->start_ns, stream_send, s, NULL);
}
