/* SPDX-License-Identifier: GPL-2.0-only */
/* What the subcommands of traffic share; main.c is the specification. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL
#define FOR_MAX_S 86400.0 /* a day: every loop ends */
#define OBJECT_BYTES_MAX 1e12
#define CONNECTIONS_MAX 8192 /* at once */
#define EVENTS 256 /* taken from epoll at once */
#define EXIT_USAGE 2

/* --- common.c: errors, time, the event loop, sockets ---------------------- */

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);
__attribute__((noreturn, format(printf, 1, 2))) void usage(const char *format, ...);
__attribute__((format(printf, 1, 2))) void warn(const char *format, ...);
void name_command(const char *name);

uint64_t now_ns(void);

/* Keys of epoll events that are the loop's own. */
#define KEY_TIMER UINT64_MAX
#define KEY_SIGNAL (UINT64_MAX - 1)
#define KEY_LISTENER (UINT64_MAX - 2)

struct loop {
	int epoll;
	int timer;
	int signals;
	uint64_t armed_ns; /* the deadline that the timer has; 0: none */
	bool ended; /* SIGTERM or SIGINT came */
};

void loop_open(struct loop *loop);
void loop_watch(struct loop *loop, int fd, uint64_t key, uint32_t events);
void loop_rewatch(struct loop *loop, int fd, uint64_t key, uint32_t events);
/* Waits for events or deadline_ns; returns how many events there are. */
int loop_wait(struct loop *loop, uint64_t deadline_ns, struct epoll_event *events);

struct address {
	struct sockaddr_storage at;
	socklen_t length;
	const char *text;
	uint16_t port;
};

void address_parse(struct address *address, const char *text, const char *port);
uint16_t port_parse(const char *text);
unsigned int udp_header_bytes(const struct sockaddr_storage *at);
/* Bound to ADDR, or to all addresses of IPv6 and IPv4; *bound gets the address. */
int socket_bound(int type, const char *bind_text, const char *port, struct address *bound);
void socket_buffer(int fd, int option, int forced, int bytes);
void socket_controller(int fd, const char *controller);
/* At once: CONNECTIONS_MAX, or less where the limit of files is hard. */
int connections_allowed(void);

void say_ready(const char *what, uint16_t port);
void print_seconds(int64_t ns); /* as a JSON number */
void print_text(const char *text); /* as a JSON string */
uint64_t *quantile(uint64_t *sorted, size_t count, double part);
int by_value(const void *a, const void *b);
void print_summary(uint64_t *sorted, size_t count, double sum);

/* --- options.c ------------------------------------------------------------ */

enum option_kind {
	OPTION_FLAG, /* bool */
	OPTION_SECONDS, /* uint64_t, in ns */
	OPTION_COUNT, /* uint64_t */
	OPTION_AMOUNT, /* uint64_t; k, M, G are 10^3, 10^6, 10^9 */
	OPTION_REAL, /* double */
	OPTION_TEXT, /* const char * */
};

struct option_spec {
	const char *name;
	char letter; /* 0: only the long name */
	enum option_kind kind;
	void *to;
	double min, max;
	const char *value; /* name of the value in the help */
	const char *help;
};

struct command {
	const char *name;
	const char *arguments;
	const char *summary;
	int (*run)(const struct command *self, int argc, char **argv);
};

/* Exactly `wanted` positional arguments, or it ends the program. */
void options_parse(const struct command *command, const struct option_spec *specs, size_t count,
		   int argc, char **argv, const char **positional, int wanted);
double amount_parse(const char *what, const char *text, double min, double max);

/* --- random.c ------------------------------------------------------------- */

struct stream {
	uint64_t s[4];
};

/* Streams of one seed that differ in `who` or `kind` are independent. */
void stream_open(struct stream *stream, uint64_t seed, uint64_t who, uint64_t kind);
uint64_t stream_next(struct stream *stream);
double stream_uniform(struct stream *stream); /* in (0, 1] */
uint64_t stream_exponential(struct stream *stream, double mean);

struct pareto {
	double shape, min, max; /* max 0: no bound but OBJECT_BYTES_MAX */
};

double pareto_min_of_mean(double shape, double mean, double max);
uint64_t pareto_draw(const struct pareto *pareto, struct stream *stream);

/* --- client.c: clients of a web-server ------------------------------------ */

struct object {
	uint64_t due_ns; /* since the client's zero, as all times here */
	uint64_t start_ns; /* connect() was called */
	uint64_t bytes;
	uint64_t received;
	int64_t took_ns; /* to the last byte; -1: unfinished */
	uint32_t session;
	uint32_t page;
	int fd; /* -1: closed */
};

/* The sample path: which objects are requested, and when. */
struct source {
	bool (*peek)(struct source *source, uint64_t *due_ns);
	void (*take)(struct source *source, struct object *object);
	/* The object is complete, or has failed. */
	void (*done)(struct source *source, const struct object *object, uint64_t when_ns);
};

struct client {
	struct source *source;
	struct address server;
	const char *controller;
	uint64_t start_ns; /* from the program's start to zero */
	uint64_t for_ns; /* no requests after this time */
	uint64_t drain_ns; /* and the last answers may take this long */
	bool dry_run;
	bool brief; /* no list of objects */
	void (*print_more)(const struct client *client);
	struct object *objects;
	size_t count, capacity;
};

int client_run(struct client *client);

int run_udp_sink(const struct command *self, int argc, char **argv);
int run_udp_send(const struct command *self, int argc, char **argv);
int run_web_server(const struct command *self, int argc, char **argv);
int run_web_client(const struct command *self, int argc, char **argv);
int run_fetch(const struct command *self, int argc, char **argv);
int run_handover(const struct command *self, int argc, char **argv);

/* --- the UDP packet ------------------------------------------------------- */

#define PACKET_MAGIC 0x63634266 /* "ccBf" */

/* All in network byte order; zeros follow up to the size asked for. */
struct packet {
	uint32_t magic;
	uint32_t reserved;
	uint64_t sequence; /* 0, 1, 2 … */
	uint64_t sent_ns; /* the sender's CLOCK_MONOTONIC */
} __attribute__((packed));

#endif
