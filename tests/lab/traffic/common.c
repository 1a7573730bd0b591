// SPDX-License-Identifier: GPL-2.0-only
/* Errors, time, the event loop, sockets, numbers as JSON. */
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define FILES_BESIDE 64 /* what is open beside the connections */

static const char *command_name = "";

void name_command(const char *name)
{
	command_name = name;
}

static void complain(const char *format, va_list args)
{
	fflush(stdout);
	fprintf(stderr, "traffic%s%s: ", *command_name ? " " : "", command_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
}

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
	exit(EXIT_FAILURE);
}

void usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(format, args);
	va_end(args);
	fprintf(stderr, "`traffic%s%s --help` says what there is\n", *command_name ? " " : "",
		command_name);
	exit(EXIT_USAGE);
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* --- the event loop ------------------------------------------------------- */

void loop_watch(struct loop *loop, int fd, uint64_t key, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = key };

	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event))
		fail("watch a descriptor: %s", strerror(errno));
}

void loop_rewatch(struct loop *loop, int fd, uint64_t key, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = key };

	if (epoll_ctl(loop->epoll, EPOLL_CTL_MOD, fd, &event))
		fail("watch a descriptor: %s", strerror(errno));
}

void loop_open(struct loop *loop)
{
	sigset_t set;

	*loop = (struct loop){ 0 };
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	loop->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (loop->epoll < 0 || loop->timer < 0 || loop->signals < 0)
		fail("open epoll, timerfd and signalfd: %s", strerror(errno));
	loop_watch(loop, loop->timer, KEY_TIMER, EPOLLIN);
	loop_watch(loop, loop->signals, KEY_SIGNAL, EPOLLIN);
}

static void arm(struct loop *loop, uint64_t deadline_ns)
{
	struct itimerspec at = { 0 };

	if (deadline_ns == loop->armed_ns)
		return;
	at.it_value.tv_sec = (time_t)(deadline_ns / NS_PER_S);
	at.it_value.tv_nsec = (long)(deadline_ns % NS_PER_S);
	if (timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &at, NULL))
		fail("set the timer: %s", strerror(errno));
	loop->armed_ns = deadline_ns;
}

int loop_wait(struct loop *loop, uint64_t deadline_ns, struct epoll_event *events)
{
	bool due = deadline_ns <= now_ns();
	int count, kept = 0;
	uint64_t ticks;

	if (!due)
		arm(loop, deadline_ns);
	count = epoll_wait(loop->epoll, events, EVENTS, due ? 0 : -1);
	if (count < 0 && errno != EINTR)
		fail("wait for events: %s", strerror(errno));
	for (int i = 0; i < count; i++) {
		if (events[i].data.u64 == KEY_TIMER) {
			if (read(loop->timer, &ticks, sizeof(ticks)) > 0)
				loop->armed_ns = 0;
		} else if (events[i].data.u64 == KEY_SIGNAL) {
			loop->ended = true;
		} else {
			events[kept++] = events[i];
		}
	}
	return kept;
}

/* --- sockets -------------------------------------------------------------- */

uint16_t port_parse(const char *text)
{
	unsigned long port;
	char *end;

	errno = 0;
	port = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || port < 1 || port > UINT16_MAX)
		usage("PORT: \"%s\" is not a number from 1 to 65535", text);
	return (uint16_t)port;
}

static bool parse_ipv6(struct sockaddr_in6 *at, const char *text)
{
	const char *scope = strchr(text, '%');
	char plain[INET6_ADDRSTRLEN] = "";
	size_t length = scope ? (size_t)(scope - text) : strlen(text);

	if (length >= sizeof(plain))
		return false;
	memcpy(plain, text, length);
	at->sin6_family = AF_INET6;
	if (inet_pton(AF_INET6, plain, &at->sin6_addr) != 1)
		return false;
	if (scope) {
		at->sin6_scope_id = if_nametoindex(scope + 1);
		if (!at->sin6_scope_id)
			usage("ADDR: %s: there is no interface \"%s\" here", text, scope + 1);
	}
	return true;
}

void address_parse(struct address *address, const char *text, const char *port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&address->at;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address->at;

	*address = (struct address){ .text = text, .port = port_parse(port) };
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(address->port);
		address->length = sizeof(*v4);
		return;
	}
	memset(&address->at, 0, sizeof(address->at));
	if (!parse_ipv6(v6, text))
		usage("ADDR: \"%s\" is no IPv4 or IPv6 address; names are not looked up", text);
	v6->sin6_port = htons(address->port);
	address->length = sizeof(*v6);
}

unsigned int udp_header_bytes(const struct sockaddr_storage *at)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)at;

	return at->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) ? 40 + 8 : 20 + 8;
}

int socket_bound(int type, const char *bind_text, const char *port, struct address *bound)
{
	int fd, on = 1, off = 0;

	address_parse(bound, bind_text ? bind_text : "::", port);
	fd = socket(bound->at.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 && !bind_text) { /* a kernel without IPv6 */
		address_parse(bound, "0.0.0.0", port);
		fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	}
	if (fd < 0)
		fail("open a socket for %s: %s", bound->text, strerror(errno));
	if (!bind_text && bound->at.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&bound->at, bound->length))
		fail("bind to %s port %u: %s%s", bound->text, bound->port, strerror(errno),
		     errno == EADDRINUSE      ? "; take another PORT"
		     : errno == EADDRNOTAVAIL ? "; --bind wants an address of this host"
		     : errno == EACCES	      ? "; take a PORT from 1024 on"
					      : "");
	return fd;
}

/* Up to the kernel's limit, or above it with CAP_NET_ADMIN. */
void socket_buffer(int fd, int option, int forced, int bytes)
{
	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes));
}

void socket_controller(int fd, const char *controller)
{
	if (controller &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, controller, (socklen_t)strlen(controller)))
		fail("congestion control %s: %s; `sysctl net.ipv4.tcp_available_congestion_control` says what there is%s",
		     controller, strerror(errno),
		     errno == EPERM
			     ? ", net.ipv4.tcp_allowed_congestion_control what a user may take"
			     : "");
}

int connections_allowed(void)
{
	rlim_t wanted = CONNECTIONS_MAX + FILES_BESIDE;
	struct rlimit files, more;

	if (getrlimit(RLIMIT_NOFILE, &files))
		fail("read the limit of open files: %s", strerror(errno));
	more.rlim_cur = wanted;
	more.rlim_max = files.rlim_max < wanted ? wanted : files.rlim_max;
	if (files.rlim_cur >= wanted || !setrlimit(RLIMIT_NOFILE, &more))
		return CONNECTIONS_MAX;
	files.rlim_cur = files.rlim_max; /* without CAP_SYS_RESOURCE */
	setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max <= FILES_BESIDE)
		fail("%ju files may be open: too few; raise `ulimit -Hn`",
		     (uintmax_t)files.rlim_max);
	return files.rlim_max >= wanted ? CONNECTIONS_MAX : (int)(files.rlim_max - FILES_BESIDE);
}

/* --- output --------------------------------------------------------------- */

void say_ready(const char *what, uint16_t port)
{
	printf("{\"ready\": \"%s\", \"port\": %u}\n", what, port);
	fflush(stdout);
}

void print_seconds(int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

	printf("%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "", (uint64_t)(size / NS_PER_S),
	       (uint64_t)(size % NS_PER_S));
}

void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if ((unsigned char)*text >= ' ')
			putchar(*text);
	}
	putchar('"');
}

int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The smallest value that at least this part of all does not exceed. */
uint64_t *quantile(uint64_t *sorted, size_t count, double part)
{
	size_t rank = (size_t)(part * (double)count);

	if ((double)rank < part * (double)count)
		rank++;
	return &sorted[rank ? rank - 1 : 0];
}

/* {"count", "mean", "p50", "p95", "p99", "max"} of values in ns. */
void print_summary(uint64_t *sorted, size_t count, double sum)
{
	static const struct {
		const char *name;
		double part;
	} parts[] = { { "p50", 0.5 }, { "p95", 0.95 }, { "p99", 0.99 }, { "max", 1 } };

	printf("{\"count\": %zu, \"mean\": ", count);
	if (count)
		print_seconds((int64_t)(sum / (double)count + 0.5));
	else
		printf("null");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		printf(", \"%s\": ", parts[i].name);
		if (count)
			print_seconds((int64_t)*quantile(sorted, count, parts[i].part));
		else
			printf("null");
	}
	printf("}");
}
