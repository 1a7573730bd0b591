// SPDX-License-Identifier: GPL-2.0-only
/* udp-sink: counts what arrives, in which order, how late. */
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCES_MAX 64
#define WINDOW 131072 /* packets behind the newest that are remembered */
#define SEQUENCE_MAX (1ULL << 62) /* above: not of a udp-send */
#define SAMPLES_MAX (1 << 20) /* delays kept */
#define INTERVALS_MAX 100000
#define BATCH 64 /* packets of one recvmmsg() */
#define BUFFER_BYTES (4 << 20)
#define INTERVAL_MIN_S 0.001

struct origin {
	struct sockaddr_storage at;
	uint64_t next; /* one above the highest sequence seen */
	uint8_t *seen; /* a ring of WINDOW bits */
};

struct interval {
	uint64_t packets, bytes;
	int64_t lost; /* below 0: packets that were counted as lost arrived late */
	uint64_t delays;
	int64_t delay_sum_ns, delay_max_ns;
};

struct sink {
	struct loop loop;
	int fd;
	uint64_t zero_ns, for_ns, interval_ns;
	struct origin origins[SOURCES_MAX];
	size_t origin_count;
	uint64_t packets, bytes, lost, reordered, duplicates, foreign;
	uint32_t socket_drops;
	uint64_t first_ns, last_ns;
	/* delays in ns; when the array is full, every second one is dropped */
	int64_t *samples;
	size_t sample_count;
	uint64_t stride, delays;
	double delay_sum;
	int64_t delay_min;
	struct interval *intervals;
	size_t interval_count, interval_places;
};

/* --- sequence ------------------------------------------------------------- */

static bool bit(const struct origin *origin, uint64_t sequence)
{
	uint64_t place = sequence % WINDOW;

	return origin->seen[place / 8] >> (place % 8) & 1;
}

static void bit_set(struct origin *origin, uint64_t sequence, bool on)
{
	uint64_t place = sequence % WINDOW;
	uint8_t mask = (uint8_t)(1 << (place % 8));

	if (on)
		origin->seen[place / 8] |= mask;
	else
		origin->seen[place / 8] &= (uint8_t)~mask;
}

/* By address and port; NULL: there are too many. */
static struct origin *origin_find(struct sink *sink, const struct sockaddr_storage *at)
{
	struct origin *origin;

	for (size_t i = 0; i < sink->origin_count; i++)
		if (!memcmp(&sink->origins[i].at, at, sizeof(*at)))
			return &sink->origins[i];
	if (sink->origin_count == SOURCES_MAX)
		return NULL;
	origin = &sink->origins[sink->origin_count];
	origin->seen = calloc(WINDOW / 8, 1);
	if (!origin->seen)
		return NULL;
	origin->at = *at;
	sink->origin_count++;
	return origin;
}

/* False: a duplicate. */
static bool count_sequence(struct sink *sink, struct origin *origin, uint64_t sequence)
{
	uint64_t from = origin->next;

	if (sequence >= origin->next) {
		if (sequence - from >= WINDOW)
			memset(origin->seen, 0, WINDOW / 8);
		else
			for (uint64_t i = from; i < sequence; i++)
				bit_set(origin, i, false);
		sink->lost += sequence - from;
		origin->next = sequence + 1;
		bit_set(origin, sequence, true);
		return true;
	}
	if (from - sequence <= WINDOW) {
		if (bit(origin, sequence)) {
			sink->duplicates++;
			return false;
		}
		bit_set(origin, sequence, true);
	}
	sink->reordered++;
	if (sink->lost)
		sink->lost--;
	return true;
}

/* --- delay and intervals -------------------------------------------------- */

static void keep_delay(struct sink *sink, int64_t delay)
{
	if (!sink->delays || delay < sink->delay_min)
		sink->delay_min = delay;
	sink->delay_sum += (double)delay;
	if (sink->delays++ % sink->stride)
		return;
	if (sink->sample_count == SAMPLES_MAX) {
		for (size_t i = 0; i < SAMPLES_MAX / 2; i++)
			sink->samples[i] = sink->samples[2 * i];
		sink->sample_count /= 2;
		sink->stride *= 2; /* this one is on the new stride too */
	}
	sink->samples[sink->sample_count++] = delay;
}

static struct interval *interval_of(struct sink *sink, uint64_t now)
{
	size_t index, places = sink->interval_places;

	if (!sink->interval_ns)
		return NULL;
	index = (now - sink->zero_ns) / sink->interval_ns;
	if (index >= INTERVALS_MAX)
		return NULL;
	if (index >= places) {
		places = 2 * places > index + 1 ? 2 * places : index + 1;
		sink->intervals = realloc(sink->intervals, places * sizeof(*sink->intervals));
		if (!sink->intervals)
			fail("memory for %zu intervals: none left; use a longer --interval",
			     places);
		memset(sink->intervals + sink->interval_places, 0,
		       (places - sink->interval_places) * sizeof(*sink->intervals));
		sink->interval_places = places;
	}
	if (index >= sink->interval_count)
		sink->interval_count = index + 1;
	return &sink->intervals[index];
}

static void count_packet(struct sink *sink, const struct packet *packet,
			 const struct sockaddr_storage *at, size_t bytes, uint64_t now)
{
	uint64_t sequence = be64toh(packet->sequence), lost = sink->lost;
	struct interval *interval;
	struct origin *origin;
	int64_t delay;
	bool fresh;

	if (bytes < sizeof(*packet) || ntohl(packet->magic) != PACKET_MAGIC ||
	    sequence >= SEQUENCE_MAX || !(origin = origin_find(sink, at))) {
		sink->foreign++;
		return;
	}
	bytes += udp_header_bytes(at);
	delay = (int64_t)(now - be64toh(packet->sent_ns));
	fresh = count_sequence(sink, origin, sequence);
	if (!sink->packets++)
		sink->first_ns = now;
	sink->last_ns = now;
	sink->bytes += bytes;
	if (fresh)
		keep_delay(sink, delay);
	interval = interval_of(sink, now);
	if (!interval)
		return;
	interval->packets++;
	interval->bytes += bytes;
	interval->lost += (int64_t)(sink->lost - lost);
	if (!fresh)
		return;
	if (!interval->delays++ || delay > interval->delay_max_ns)
		interval->delay_max_ns = delay;
	interval->delay_sum_ns += delay;
}

/* --- the socket ----------------------------------------------------------- */

static void read_drops(struct sink *sink, struct msghdr *message)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(message);

	for (; part; part = CMSG_NXTHDR(message, part))
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_RXQ_OVFL)
			memcpy(&sink->socket_drops, CMSG_DATA(part), sizeof(sink->socket_drops));
}

/* One batch; false: nothing is left. */
static bool receive(struct sink *sink)
{
	static struct mmsghdr messages[BATCH];
	static struct packet packets[BATCH];
	static struct sockaddr_storage from[BATCH];
	static _Alignas(struct cmsghdr) char control[BATCH][CMSG_SPACE(sizeof(uint32_t))];
	struct iovec parts[BATCH];
	uint64_t now;
	int count;

	memset(from, 0, sizeof(from));
	for (int i = 0; i < BATCH; i++) {
		parts[i] = (struct iovec){ &packets[i], sizeof(packets[i]) };
		messages[i].msg_hdr = (struct msghdr){ .msg_name = &from[i],
						       .msg_namelen = sizeof(from[i]),
						       .msg_iov = &parts[i],
						       .msg_iovlen = 1,
						       .msg_control = control[i],
						       .msg_controllen = sizeof(control[i]) };
	}
	/* MSG_TRUNC: the true length, though only the head is copied */
	count = recvmmsg(sink->fd, messages, BATCH, MSG_TRUNC, NULL);
	if (count < 0 && errno != EAGAIN && errno != EINTR)
		fail("receive: %s", strerror(errno));
	now = now_ns();
	for (int i = 0; i < count; i++) {
		count_packet(sink, &packets[i], &from[i], messages[i].msg_len, now);
		read_drops(sink, &messages[i].msg_hdr);
	}
	return count == BATCH;
}

static void run(struct sink *sink)
{
	struct epoll_event events[EVENTS];
	uint64_t end = sink->zero_ns + sink->for_ns;

	while (!sink->loop.ended && now_ns() < end)
		if (loop_wait(&sink->loop, end, events))
			receive(sink);
	/* packets that arrived before the end and wait; at most a socket buffer of them */
	for (int i = 0; i < BUFFER_BYTES / BATCH / BATCH && receive(sink); i++)
		;
}

/* --- the result ----------------------------------------------------------- */

static void print_interval(const struct sink *sink, size_t index)
{
	const struct interval *interval = &sink->intervals[index];
	int64_t mean;

	printf("%s{\"t\": ", index ? ", " : "");
	print_seconds((int64_t)(index * sink->interval_ns));
	printf(", \"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"lost\": %" PRId64
	       ", \"variation_mean\": ",
	       interval->packets, interval->bytes, interval->lost);
	if (!interval->delays) {
		printf("null, \"variation_max\": null}");
		return;
	}
	mean = interval->delay_sum_ns / (int64_t)interval->delays;
	print_seconds(mean - sink->delay_min);
	printf(", \"variation_max\": ");
	print_seconds(interval->delay_max_ns - sink->delay_min);
	printf("}");
}

static void print_delays(struct sink *sink)
{
	uint64_t *above = (uint64_t *)sink->samples;
	double mean = 0;

	for (size_t i = 0; i < sink->sample_count; i++)
		above[i] = (uint64_t)(sink->samples[i] - sink->delay_min);
	qsort(above, sink->sample_count, sizeof(*above), by_value);
	if (sink->delays)
		mean = sink->delay_sum / (double)sink->delays - (double)sink->delay_min;
	printf(", \"delay_min_s\": ");
	if (sink->delays)
		print_seconds(sink->delay_min);
	else
		printf("null");
	printf(", \"variation_s\": ");
	print_summary(above, sink->sample_count, mean * (double)sink->sample_count);
}

static void print_result(struct sink *sink)
{
	printf("{\"zero_ns\": %" PRIu64 ", \"packets\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"sources\": %zu, \"lost\": %" PRIu64 ", \"reordered\": %" PRIu64
	       ", \"duplicates\": %" PRIu64 ", \"foreign\": %" PRIu64
	       ", \"socket_drops\": %u, \"first_s\": ",
	       sink->zero_ns, sink->packets, sink->bytes, sink->origin_count, sink->lost,
	       sink->reordered, sink->duplicates, sink->foreign, sink->socket_drops);
	print_seconds(sink->packets ? (int64_t)(sink->first_ns - sink->zero_ns) : 0);
	printf(", \"last_s\": ");
	print_seconds(sink->packets ? (int64_t)(sink->last_ns - sink->zero_ns) : 0);
	print_delays(sink);
	printf(", \"interval_s\": ");
	if (sink->interval_ns)
		print_seconds((int64_t)sink->interval_ns);
	else
		printf("null");
	printf(", \"series\": [");
	for (size_t i = 0; i < sink->interval_count; i++)
		print_interval(sink, i);
	printf("]}\n");
}

int run_udp_sink(const struct command *self, int argc, char **argv)
{
	static struct sink sink = { .for_ns = (uint64_t)FOR_MAX_S * NS_PER_S, .stride = 1 };
	const char *bind_text = NULL, *port;
	const struct option_spec specs[] = {
		{ "for", 0, OPTION_SECONDS, &sink.for_ns, 0.001, FOR_MAX_S, "S",
		  "how long (a day, or until SIGTERM)" },
		{ "bind", 0, OPTION_TEXT, &bind_text, 0, 0, "ADDR",
		  "receive only at this address" },
		{ "interval", 0, OPTION_SECONDS, &sink.interval_ns, INTERVAL_MIN_S, FOR_MAX_S, "S",
		  "a series too, one row each S seconds" },
	};
	struct address bound;
	int on = 1;

	options_parse(self, specs, sizeof(specs) / sizeof(specs[0]), argc, argv, &port, 1);
	sink.samples = malloc(SAMPLES_MAX * sizeof(*sink.samples));
	if (!sink.samples)
		fail("memory for %d delays: none left", SAMPLES_MAX);
	sink.fd = socket_bound(SOCK_DGRAM, bind_text, port, &bound);
	socket_buffer(sink.fd, SO_RCVBUF, SO_RCVBUFFORCE, BUFFER_BYTES);
	setsockopt(sink.fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
	loop_open(&sink.loop);
	loop_watch(&sink.loop, sink.fd, KEY_LISTENER, EPOLLIN);
	sink.zero_ns = now_ns();
	say_ready(self->name, bound.port);
	run(&sink);
	print_result(&sink);
	close(sink.fd);
	for (size_t i = 0; i < sink.origin_count; i++)
		free(sink.origins[i].seen);
	free(sink.intervals);
	free(sink.samples);
	return 0;
}
