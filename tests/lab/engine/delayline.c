// SPDX-License-Identifier: GPL-2.0-only
/*
 * delayline: a piece of wire with a length, between two network namespaces.
 *
 *   delayline LEFT_NETNS LEFT_DEV RIGHT_NETNS RIGHT_DEV DELAY_US [PACKETS [LOST TWICE EARLY]]
 *
 *   LEFT_NETNS ─ LEFT_DEV (tun) ──▶ ring, DELAY_US ──▶ (tun) RIGHT_DEV ─ RIGHT_NETNS
 *                             ◀── DELAY_US, ring ◀──
 *
 * It stands in for netem, which not every kernel has. LEFT_NETNS and
 * RIGHT_NETNS are paths (/run/netns/x). The two devices are made at the start
 * and vanish with the process. What one of them is given to send is received by
 * the other DELAY_US microseconds later, each way, in order, unchanged. There is
 * no rate and no queue here: the bottleneck is a qdisc on one of the devices,
 * where `tc -s` shows it. The devices announce no offload, so the kernel hands
 * over single IP packets of at most the MTU.
 *
 * Faults. Of 10000 packets from left to right LOST are not delivered, TWICE arrive twice, and EARLY arrive
 * at once, before all that are on their way (0). They are drawn from a fixed seed.
 *
 * Time. A packet is due DELAY_US after it was read. The packets of one direction
 * are due in order, so the direction is a ring and its head is the next
 * deadline; one ppoll() waits for both deadlines and both devices. The process
 * asks for SCHED_FIFO and goes on without it. A packet sent more than LATE_NS
 * after it was due counts as late.
 *
 * Bounds. PACKETS slots per direction (4096: 100 Mbit/s of 1500-byte packets for
 * 490 ms), allocated and touched at the start. A packet that finds no slot is
 * dropped and counted.
 *
 * Life. One line on stdout when both devices exist; the caller then gives them
 * addresses. The end comes with SIGTERM, SIGINT, or when stdin is closed: a
 * caller that keeps the other end of a pipe takes the wire with it, however it
 * dies. At the end one more line, the statistics. Both are JSON objects.
 * Exit codes: 0, 1 failure, 2 usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US 1000ULL
#define NS_PER_S 1000000000ULL
/* Later than this is counted: the lab promises RTTs within 1 ms. */
#define LATE_NS (1000 * NS_PER_US)
#define SLOT_BYTES 2048 /* an MTU of 1500 and the length and time beside it */
#define PACKETS_DEFAULT 4096
#define PACKETS_MAX 65536
#define DELAY_US_MAX 10000000ULL
#define BATCH 64 /* packets read before the other direction has its turn */
/* Above every normal process, below the kernel's own threads. */
#define FIFO_PRIORITY 10
#define FAULTS_OF 10000
#define SEED 88172645463325252ULL

enum fault {
	LOST,
	TWICE,
	EARLY,
	FAULTS
};

struct packet {
	uint64_t due_ns; /* CLOCK_MONOTONIC */
	uint32_t bytes;
	uint8_t data[SLOT_BYTES - 12];
} __attribute__((packed, aligned(4)));

_Static_assert(sizeof(struct packet) == SLOT_BYTES, "a slot has no padding");

struct direction {
	const char *name;
	int in; /* tun to read from */
	int out; /* tun to write to */
	struct packet *ring;
	uint64_t head; /* packets taken out since the start; the slot is this modulo the size */
	uint64_t tail; /* packets put in */
	uint64_t bytes;
	uint64_t dropped; /* no slot free */
	uint64_t refused; /* the receiving device refused it: it is down */
	uint64_t late;
	uint64_t latest_ns;
	uint64_t often[FAULTS]; /* of FAULTS_OF packets */
	uint64_t faults[FAULTS]; /* how often it was so */
};

struct line {
	struct direction direction[2];
	uint64_t delay_ns;
	uint64_t packets; /* slots per direction */
	uint64_t drawn; /* the generator's state */
	bool fifo;
};

static __attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...)
{
	va_list args;

	fputs("delayline: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* A tun device belongs to the namespace in which its file was opened. */
static int open_tun(const char *netns, const char *device)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_TUN_EXCL };
	int ns, tun;

	if (strlen(device) >= sizeof(request.ifr_name))
		fail("device name %s: longer than %zu characters", device,
		     sizeof(request.ifr_name) - 1);
	strcpy(request.ifr_name, device);
	ns = open(netns, O_RDONLY | O_CLOEXEC);
	if (ns < 0)
		fail("network namespace %s: %s", netns, strerror(errno));
	if (setns(ns, CLONE_NEWNET))
		fail("enter network namespace %s: %s (this needs CAP_SYS_ADMIN)", netns,
		     strerror(errno));
	close(ns);
	tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (tun < 0)
		fail("/dev/net/tun: %s (this needs a kernel with CONFIG_TUN; `modprobe tun`)",
		     strerror(errno));
	if (ioctl(tun, TUNSETIFF, &request))
		fail("make tun device %s in %s: %s", device, netns, strerror(errno));
	return tun;
}

static struct packet *make_ring(uint64_t packets)
{
	void *ring = mmap(NULL, packets * SLOT_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (ring == MAP_FAILED)
		fail("%llu packets of memory: %s", (unsigned long long)packets, strerror(errno));
	return ring;
}

static struct packet *slot(const struct line *line, const struct direction *way, uint64_t position)
{
	return &way->ring[position % line->packets];
}

/* Marsaglia's xorshift64. Each packet is drawn for each fault, and at most one befalls it. */
static bool befalls(struct line *line, struct direction *way, enum fault fault)
{
	line->drawn ^= line->drawn << 13;
	line->drawn ^= line->drawn >> 7;
	line->drawn ^= line->drawn << 17;
	if (line->drawn % FAULTS_OF >= way->often[fault])
		return false;
	way->faults[fault]++;
	return true;
}

/* The packet is in the slot at the tail: it gets under way, unless a fault befalls it. */
static void send_off(struct line *line, struct direction *way)
{
	struct packet *packet = slot(line, way, way->tail);

	packet->due_ns = now_ns() + line->delay_ns;
	if (befalls(line, way, LOST))
		return;
	if (befalls(line, way, EARLY)) {
		if (write(way->out, packet->data, packet->bytes) < 0)
			way->refused++;
		return;
	}
	way->tail++;
	if (way->tail - way->head < line->packets && befalls(line, way, TWICE))
		*slot(line, way, way->tail++) = *packet;
}

/* Reads the packets that the sending side has ready, at most a batch. */
static void take_in(struct line *line, struct direction *way)
{
	uint8_t surplus[SLOT_BYTES];

	for (int i = 0; i < BATCH; i++) {
		bool full = way->tail - way->head == line->packets;
		struct packet *packet = slot(line, way, way->tail);
		ssize_t bytes = full ? read(way->in, surplus, sizeof(surplus))
				     : read(way->in, packet->data, sizeof(packet->data));

		if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (bytes < 0)
			fail("read from the %s side: %s", way->name, strerror(errno));
		if (full) {
			way->dropped++;
			continue;
		}
		packet->bytes = (uint32_t)bytes;
		send_off(line, way);
	}
}

/* Delivers the packets that are due. */
static void give_out(struct line *line, struct direction *way)
{
	while (way->head != way->tail) {
		struct packet *packet = slot(line, way, way->head);
		uint64_t now = now_ns();

		if (packet->due_ns > now)
			return;
		if (now - packet->due_ns > LATE_NS)
			way->late++;
		if (now - packet->due_ns > way->latest_ns)
			way->latest_ns = now - packet->due_ns;
		if (write(way->out, packet->data, packet->bytes) < 0)
			way->refused++;
		way->bytes += packet->bytes;
		way->head++;
	}
}

/* Time until the next packet is due; false: none is under way. */
static bool next_wait(const struct line *line, struct timespec *wait)
{
	uint64_t due = UINT64_MAX, now, left;

	for (int i = 0; i < 2; i++) {
		const struct direction *way = &line->direction[i];

		if (way->head != way->tail && slot(line, way, way->head)->due_ns < due)
			due = slot(line, way, way->head)->due_ns;
	}
	if (due == UINT64_MAX)
		return false;
	now = now_ns();
	left = due > now ? due - now : 0;
	wait->tv_sec = (time_t)(left / NS_PER_S);
	wait->tv_nsec = (long)(left % NS_PER_S);
	return true;
}

static void run(struct line *line, int signals)
{
	struct pollfd fds[] = {
		{ .fd = line->direction[0].in, .events = POLLIN },
		{ .fd = line->direction[1].in, .events = POLLIN },
		{ .fd = signals, .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};

	for (;;) {
		struct timespec wait;
		bool pending;

		for (int i = 0; i < 2; i++)
			give_out(line, &line->direction[i]);
		pending = next_wait(line, &wait);
		if (ppoll(fds, sizeof(fds) / sizeof(fds[0]), pending ? &wait : NULL, NULL) < 0 &&
		    errno != EINTR)
			fail("ppoll: %s", strerror(errno));
		if (fds[2].revents || fds[3].revents)
			return;
		for (int i = 0; i < 2; i++) {
			if (fds[i].revents & (POLLERR | POLLHUP))
				fail("the tun device of the %s side is gone",
				     line->direction[i].name);
			if (fds[i].revents & POLLIN)
				take_in(line, &line->direction[i]);
		}
	}
}

static void print_direction(const struct direction *way)
{
	printf("\"from_%s\": {\"packets\": %llu, \"bytes\": %llu, \"dropped\": %llu, \"refused\": %llu, "
	       "\"late\": %llu, \"latest_us\": %llu, \"lost\": %llu, \"twice\": %llu, \"early\": %llu}",
	       way->name, (unsigned long long)way->head, (unsigned long long)way->bytes,
	       (unsigned long long)way->dropped, (unsigned long long)way->refused,
	       (unsigned long long)way->late, (unsigned long long)(way->latest_ns / NS_PER_US),
	       (unsigned long long)way->faults[LOST], (unsigned long long)way->faults[TWICE],
	       (unsigned long long)way->faults[EARLY]);
}

static void print_statistics(const struct line *line)
{
	printf("{\"delay_us\": %llu, \"fifo\": %s, ",
	       (unsigned long long)(line->delay_ns / NS_PER_US), line->fifo ? "true" : "false");
	print_direction(&line->direction[0]);
	printf(", ");
	print_direction(&line->direction[1]);
	printf("}\n");
	fflush(stdout);
}

static uint64_t parse(const char *text, const char *what, uint64_t min, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < min || value > max) {
		fprintf(stderr, "delayline: %s: \"%s\" is not a number from %llu to %llu\n", what,
			text, (unsigned long long)min, (unsigned long long)max);
		exit(2);
	}
	return value;
}

static int end_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		fail("signalfd: %s", strerror(errno));
	return fd;
}

static const char *const names[FAULTS] = { "LOST", "TWICE", "EARLY" };

int main(int argc, char **argv)
{
	struct sched_param priority = { .sched_priority = FIFO_PRIORITY };
	struct line line = { .packets = PACKETS_DEFAULT, .drawn = SEED };
	uint64_t often[FAULTS] = { 0 };
	int signals, left, right;

	if (argc != 6 && argc != 7 && argc != 7 + FAULTS) {
		fprintf(stderr,
			"usage: delayline LEFT_NETNS LEFT_DEV RIGHT_NETNS RIGHT_DEV DELAY_US "
			"[PACKETS [LOST TWICE EARLY]]\n");
		return 2;
	}
	line.delay_ns = parse(argv[5], "DELAY_US", 0, DELAY_US_MAX) * NS_PER_US;
	if (argc >= 7)
		line.packets = parse(argv[6], "PACKETS", 1, PACKETS_MAX);
	for (int i = 0; i < FAULTS && argc > 7 + i; i++)
		often[i] = parse(argv[7 + i], names[i], 0, FAULTS_OF);
	signals = end_signals();
	left = open_tun(argv[1], argv[2]);
	right = open_tun(argv[3], argv[4]);
	line.direction[0] =
		(struct direction){ "left", left, right, .ring = make_ring(line.packets) };
	line.direction[1] =
		(struct direction){ "right", right, left, .ring = make_ring(line.packets) };
	memcpy(line.direction[0].often, often, sizeof(often));
	prctl(PR_SET_TIMERSLACK, 1UL); /* ns; matters where SCHED_FIFO is refused */
	line.fifo = !sched_setscheduler(0, SCHED_FIFO, &priority);

	printf("{\"ready\": true}\n");
	fflush(stdout);
	run(&line, signals);
	print_statistics(&line);
	return EXIT_SUCCESS;
}
