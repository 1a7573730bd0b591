// SPDX-License-Identifier: GPL-2.0-only
/* udp-send: packets at times that are known beforehand. */
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define IP_BYTES_MAX 65535
#define RATE_MIN 1000.0
#define RATE_MAX 100e9
#define RTP_RATE 128000 /* 20 ms of 128 kbit/s are 320 bytes */
#define RTP_BYTES 320
#define BUFFER_BYTES (4 << 20) /* so that the qdisc's limit is the limit */
/* Later than this a packet no longer leaves at once: see catch_up(). */
#define SLACK_NS NS_PER_MS
/* Overdue packets may be sent this long after the end. */
#define GRACE_NS NS_PER_S
#define BATCH 64 /* packets before signals have their turn */

struct sender {
	struct address to;
	uint64_t rate, bytes, for_ns, start_ns, period_ns, burst, seed;
	double duty;
	bool constant, poisson, rtp, dry_run;
	/* the path: packets sent or given up so far, and the next one's time */
	struct stream gaps;
	uint64_t next; /* its number */
	uint64_t on_ns; /* when it is due, counting only the on times */
	/* at work */
	int fd;
	uint64_t zero_ns;
	uint64_t batch_ns, batch_left; /* see catch_up() */
	uint8_t payload[IP_BYTES_MAX];
	size_t payload_bytes;
	/* the outcome */
	uint64_t sent, refused, unreachable, late, latest_ns;
	uint64_t first_ns, last_ns;
};

/* From time on the clock that stands still while the square wave is off. */
static uint64_t due_ns(const struct sender *sender)
{
	uint64_t on;

	if (!sender->period_ns)
		return sender->on_ns;
	on = (uint64_t)((double)sender->period_ns * sender->duty + 0.5);
	return sender->on_ns / on * sender->period_ns + sender->on_ns % on;
}

static double mean_gap_ns(const struct sender *sender)
{
	return (double)sender->bytes * 8 * (double)NS_PER_S / (double)sender->rate;
}

static void advance(struct sender *sender)
{
	sender->next++;
	if (sender->poisson)
		sender->on_ns += stream_exponential(&sender->gaps, mean_gap_ns(sender));
	else /* from zero each time, so that roundings do not add up */
		sender->on_ns = (uint64_t)((unsigned __int128)sender->next * sender->bytes * 8 *
					   NS_PER_S / sender->rate);
}

static void path_open(struct sender *sender)
{
	stream_open(&sender->gaps, sender->seed, 0, 0);
	if (sender->poisson)
		sender->on_ns = stream_exponential(&sender->gaps, mean_gap_ns(sender));
}

static void send_one(struct sender *sender, uint64_t now)
{
	struct packet head = { .magic = htonl(PACKET_MAGIC),
			       .sequence = htobe64(sender->next),
			       .sent_ns = htobe64(now) };
	ssize_t done;

	memcpy(sender->payload, &head, sizeof(head));
	done = send(sender->fd, sender->payload, sender->payload_bytes, 0);
	if (done < 0 && errno == ECONNREFUSED) {
		/* the error is of an earlier packet; this one was not tried */
		sender->unreachable++;
		done = send(sender->fd, sender->payload, sender->payload_bytes, 0);
	}
	if (done < 0 && errno == EMSGSIZE)
		fail("send %" PRIu64
		     " bytes to %s port %u: larger than the MTU of the path; use a smaller --size",
		     sender->bytes, sender->to.text, sender->to.port);
	if (done < 0 &&
	    (errno == ENETUNREACH || errno == EHOSTUNREACH || errno == EPERM || errno == EINVAL))
		fail("send to %s port %u: %s; look at the routes, addresses and filters here",
		     sender->to.text, sender->to.port, strerror(errno));
	if (done < 0) {
		sender->refused++;
		return;
	}
	if (!sender->sent++)
		sender->first_ns = now;
	sender->last_ns = now;
}

/*
 * A packet that is late by more than SLACK_NS waits for its turn: `burst`
 * packets, then a pause, so that what is overdue leaves at twice the rate.
 * Returns when the packet may leave.
 */
static uint64_t catch_up(struct sender *sender, uint64_t now)
{
	double batch = mean_gap_ns(sender) / 2 * (double)sender->burst;
	uint64_t next_ns = sender->batch_ns + (uint64_t)batch;

	if (!sender->batch_left && now < next_ns)
		return next_ns;
	if (!sender->batch_left || now >= next_ns) {
		sender->batch_ns = now;
		sender->batch_left = sender->burst;
	}
	sender->batch_left--;
	return now;
}

/* Sends what is due, a batch at most; returns when to go on. */
static uint64_t send_due(struct sender *sender)
{
	for (int i = 0; i < BATCH; i++) {
		uint64_t due = sender->zero_ns + due_ns(sender);
		uint64_t now = now_ns(), turn;

		if (due_ns(sender) >= sender->for_ns)
			return sender->zero_ns + sender->for_ns;
		if (now < due)
			return due;
		if (now - due > sender->latest_ns)
			sender->latest_ns = now - due;
		if (now - due > SLACK_NS) {
			turn = catch_up(sender, now);
			if (turn > now)
				return turn;
			sender->late++;
		}
		send_one(sender, now);
		advance(sender);
	}
	return now_ns();
}

static void run(struct sender *sender)
{
	struct epoll_event events[EVENTS];
	struct loop loop;

	loop_open(&loop);
	sender->zero_ns = now_ns() + sender->start_ns;
	for (;;) {
		uint64_t next = send_due(sender);
		uint64_t now = now_ns(), end = sender->zero_ns + sender->for_ns;

		if (loop.ended || now >= end + GRACE_NS ||
		    (now >= end && due_ns(sender) >= sender->for_ns))
			return;
		loop_wait(&loop, next, events);
	}
}

/* Packets that are overdue at the end and are no longer sent. */
static uint64_t unsent(struct sender *sender)
{
	uint64_t first = sender->next;

	while (due_ns(sender) < sender->for_ns)
		advance(sender);
	return sender->next - first;
}

static void print_asked(const struct sender *sender)
{
	printf("{\"asked\": {\"rate_bps\": %" PRIu64 ", \"size\": %" PRIu64 ", \"for_s\": ",
	       sender->rate, sender->bytes);
	print_seconds((int64_t)sender->for_ns);
	printf(", \"gaps\": \"%s\", \"square_s\": ", sender->poisson ? "poisson" : "constant");
	if (sender->period_ns) {
		print_seconds((int64_t)sender->period_ns);
		printf(", \"duty\": %.9g", sender->duty);
	} else {
		printf("null, \"duty\": 1");
	}
	printf(", \"burst\": %" PRIu64 ", \"seed\": %" PRIu64 "}", sender->burst, sender->seed);
}

static void print_path(struct sender *sender)
{
	print_asked(sender);
	printf(", \"due\": [");
	for (; due_ns(sender) < sender->for_ns; advance(sender)) {
		printf(sender->next ? ", " : "");
		print_seconds((int64_t)due_ns(sender));
	}
	printf("]}\n");
}

static void print_result(struct sender *sender, uint64_t given_up)
{
	print_asked(sender);
	printf(", \"zero_ns\": %" PRIu64 ", \"packets\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"rate_bps\": %.0f, \"refused\": %" PRIu64 ", \"unreachable\": %" PRIu64
	       ", \"unsent\": %" PRIu64 ", \"late\": %" PRIu64 ", \"latest_s\": ",
	       sender->zero_ns, sender->sent, sender->sent * sender->bytes,
	       (double)(sender->sent * sender->bytes) * 8 * (double)NS_PER_S /
		       (double)sender->for_ns,
	       sender->refused, sender->unreachable, given_up, sender->late);
	print_seconds((int64_t)sender->latest_ns);
	printf(", \"first_s\": ");
	print_seconds(sender->sent ? (int64_t)(sender->first_ns - sender->zero_ns) : 0);
	printf(", \"last_s\": ");
	print_seconds(sender->sent ? (int64_t)(sender->last_ns - sender->zero_ns) : 0);
	printf("}\n");
}

static void socket_open(struct sender *sender)
{
	int v4 = IP_PMTUDISC_DO, v6 = IPV6_PMTUDISC_DO;

	sender->fd = socket(sender->to.at.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (sender->fd < 0)
		fail("open a UDP socket to %s: %s", sender->to.text, strerror(errno));
	/* a fragment would not have the size that was asked for */
	setsockopt(sender->fd, IPPROTO_IP, IP_MTU_DISCOVER, &v4, sizeof(v4));
	setsockopt(sender->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof(v6));
	socket_buffer(sender->fd, SO_SNDBUF, SO_SNDBUFFORCE, BUFFER_BYTES);
	if (connect(sender->fd, (struct sockaddr *)&sender->to.at, sender->to.length))
		fail("connect to %s port %u: %s; look at the routes here", sender->to.text,
		     sender->to.port, strerror(errno));
}

static void check(struct sender *sender)
{
	unsigned int header = udp_header_bytes(&sender->to.at);
	unsigned int least = header + (unsigned int)sizeof(struct packet);

	if (sender->rtp) {
		if (sender->rate || sender->bytes || sender->poisson)
			usage("--rtp sets --rate, --size and constant gaps itself: leave them out");
		sender->rate = RTP_RATE;
		sender->bytes = RTP_BYTES;
	}
	if (sender->constant && sender->poisson)
		usage("--constant and --poisson exclude each other: take one");
	if (!sender->rate || !sender->bytes)
		usage("--rate and --size are needed (or --rtp)");
	if (!sender->for_ns)
		usage("--for is needed: how many seconds to send");
	if (sender->bytes < least)
		usage("--size: %" PRIu64
		      " is too small: the IP, UDP and our own header to %s are %u bytes",
		      sender->bytes, sender->to.text, least);
	if (sender->period_ns && (double)sender->period_ns * sender->duty < (double)NS_PER_MS / 1e3)
		usage("--square, --duty: the time on is shorter than 1 us");
	if (!sender->burst) { /* what the rate gives in a millisecond */
		double packets = (double)SLACK_NS / mean_gap_ns(sender);

		sender->burst = packets < 1 ? 1 : (uint64_t)packets;
	}
	sender->payload_bytes = sender->bytes - header;
}

int run_udp_send(const struct command *self, int argc, char **argv)
{
	static struct sender sender = { .duty = 0.5, .seed = 1 };
	const struct option_spec specs[] = {
		{ "rate", 0, OPTION_AMOUNT, &sender.rate, RATE_MIN, RATE_MAX, "BITS",
		  "bits of IP packets per second while on; k, M, G" },
		{ "size", 0, OPTION_AMOUNT, &sender.bytes, 1, IP_BYTES_MAX, "BYTES",
		  "of an IP packet" },
		{ "for", 0, OPTION_SECONDS, &sender.for_ns, 0.001, FOR_MAX_S, "S", "how long" },
		{ "start", 0, OPTION_SECONDS, &sender.start_ns, 0, FOR_MAX_S, "S",
		  "wait this long first (0)" },
		{ "constant", 0, OPTION_FLAG, &sender.constant, 0, 0, NULL,
		  "equal gaps (this is what happens anyway)" },
		{ "poisson", 0, OPTION_FLAG, &sender.poisson, 0, 0, NULL,
		  "exponential gaps, --rate is the mean" },
		{ "square", 0, OPTION_SECONDS, &sender.period_ns, 0.0001, FOR_MAX_S, "PERIOD_S",
		  "on and off by turns, on first" },
		{ "duty", 0, OPTION_REAL, &sender.duty, 0.001, 1, "SHARE",
		  "of the period that is on (0.5)" },
		{ "rtp", 0, OPTION_FLAG, &sender.rtp, 0, 0, NULL,
		  "128 kbit/s, 320 bytes each 20 ms" },
		{ "burst", 0, OPTION_COUNT, &sender.burst, 1, 1e6, "PACKETS",
		  "at most, back to back, when late (1 ms of the rate)" },
		{ "seed", 0, OPTION_COUNT, &sender.seed, 0, 1.8e19, "N", "of --poisson (1)" },
		{ "dry-run", 0, OPTION_FLAG, &sender.dry_run, 0, 0, NULL,
		  "print when packets are due, send none" },
	};
	const char *positional[2];

	options_parse(self, specs, sizeof(specs) / sizeof(specs[0]), argc, argv, positional, 2);
	address_parse(&sender.to, positional[0], positional[1]);
	check(&sender);
	path_open(&sender);
	if (sender.dry_run) {
		print_path(&sender);
		return 0;
	}
	socket_open(&sender);
	run(&sender);
	print_result(&sender, unsent(&sender));
	close(sender.fd);
	return 0;
}
