// SPDX-License-Identifier: GPL-2.0-only
/* What web-client and fetch share: a connection for each object of a path. */
#include "traffic.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OBJECTS_MAX 1000000
#define OBJECTS_FIRST 1024
#define TURN_BYTES (1 << 20) /* read of one connection before the next */
#define REQUEST_MAX 32
#define REQUESTS_AT_ONCE 64 /* before the answers have their turn */

struct running {
	struct client *client;
	struct loop loop;
	uint64_t zero_ns;
	uint64_t allowed, open, most, late_ns;
	uint64_t waiting; /* objects that are neither finished nor failed */
	uint64_t failed;
	int first_error;
};

static struct object *object_new(struct client *client)
{
	size_t capacity = client->capacity ? 2 * client->capacity : OBJECTS_FIRST;

	if (client->count == OBJECTS_MAX)
		fail("the path has more than %d objects; use a shorter --for, fewer --sessions or longer gaps",
		     OBJECTS_MAX);
	if (client->count == client->capacity) {
		client->objects = realloc(client->objects, capacity * sizeof(*client->objects));
		if (!client->objects)
			fail("memory for %zu objects: none left", capacity);
		client->capacity = capacity;
	}
	client->objects[client->count] = (struct object){ .took_ns = -1, .fd = -1 };
	return &client->objects[client->count++];
}

static void done(struct running *running, struct object *object, uint64_t now, int error)
{
	struct source *source = running->client->source;

	running->waiting--;
	if (error) {
		running->failed++;
		if (!running->first_error)
			running->first_error = error;
	} else {
		object->took_ns = (int64_t)(now - running->zero_ns - object->start_ns);
	}
	source->done(source, object, now - running->zero_ns);
}

static void hang_up(struct running *running, struct object *object)
{
	close(object->fd);
	object->fd = -1;
	running->open--;
}

static void hang_up_error(struct running *running, struct object *object, int error)
{
	hang_up(running, object);
	if (object->took_ns < 0)
		done(running, object, now_ns(), error);
}

static void connect_object(struct running *running, size_t index)
{
	struct client *client = running->client;
	struct object *object = &client->objects[index];
	struct address *server = &client->server;
	int fd = -1;

	running->waiting++;
	errno = EMFILE;
	if (running->open < running->allowed)
		fd = socket(server->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	object->start_ns = now_ns() - running->zero_ns;
	if (object->start_ns - object->due_ns > running->late_ns)
		running->late_ns = object->start_ns - object->due_ns;
	if (fd < 0) {
		done(running, object, now_ns(), errno);
		return;
	}
	object->fd = fd;
	if (++running->open > running->most)
		running->most = running->open;
	socket_controller(fd, client->controller);
	if (connect(fd, (struct sockaddr *)&server->at, server->length) && errno != EINPROGRESS) {
		hang_up_error(running, object, errno);
		return;
	}
	loop_watch(&running->loop, fd, index, EPOLLOUT);
}

/* The connection is established, or has failed. */
static void request(struct running *running, size_t index)
{
	struct object *object = &running->client->objects[index];
	char line[REQUEST_MAX];
	int error = 0, bytes;
	socklen_t size = sizeof(error);

	getsockopt(object->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	bytes = snprintf(line, sizeof(line), "GET %" PRIu64 "\n", object->bytes);
	if (!error && send(object->fd, line, (size_t)bytes, MSG_NOSIGNAL) != bytes)
		error = errno;
	if (error)
		hang_up_error(running, object, error);
	else
		loop_rewatch(&running->loop, object->fd, index, EPOLLIN);
}

/* Counts and discards the data that has arrived. */
static void take(struct running *running, struct object *object)
{
	for (uint64_t turn = 0; turn < TURN_BYTES;) {
		/* MSG_TRUNC: TCP drops the bytes instead of copying them */
		ssize_t got = recv(object->fd, NULL, TURN_BYTES, MSG_TRUNC);

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got <= 0) {
			hang_up_error(running, object, got ? errno : ECONNABORTED);
			return;
		}
		object->received += (uint64_t)got;
		turn += (uint64_t)got;
		if (object->took_ns < 0 && object->received >= object->bytes)
			done(running, object, now_ns(), 0);
	}
}

/* Requests what is due. Returns when the next object is due; UINT64_MAX: none is left. */
static uint64_t ask(struct running *running)
{
	struct client *client = running->client;
	struct source *source = client->source;
	uint64_t due;

	for (int i = 0; i < REQUESTS_AT_ONCE; i++) {
		if (!source->peek(source, &due) || due >= client->for_ns)
			return UINT64_MAX;
		if (running->zero_ns + due > now_ns())
			return running->zero_ns + due;
		source->take(source, object_new(client));
		connect_object(running, client->count - 1);
	}
	return now_ns();
}

static void handle(struct running *running, const struct epoll_event *event)
{
	size_t index = event->data.u64;
	struct object *object = &running->client->objects[index];

	if (object->fd < 0)
		return;
	if (event->events & EPOLLOUT)
		request(running, index);
	else
		take(running, object);
}

static void run(struct running *running)
{
	struct client *client = running->client;
	uint64_t end = running->zero_ns + client->for_ns;
	struct epoll_event events[EVENTS];

	while (!running->loop.ended) {
		uint64_t next = ask(running), now = now_ns(), wake = end;
		int count;

		if (next == UINT64_MAX && !running->waiting)
			return;
		if (now >= end)
			wake = end + client->drain_ns;
		if (now >= wake)
			return;
		count = loop_wait(&running->loop, next < wake ? next : wake, events);
		for (int i = 0; i < count; i++)
			handle(running, &events[i]);
	}
}

static void dry_run(struct client *client)
{
	struct source *source = client->source;
	uint64_t due;

	while (source->peek(source, &due) && due < client->for_ns) {
		struct object *object = object_new(client);

		source->take(source, object);
		object->start_ns = due;
		source->done(source, object, due);
	}
}

/* --- the result ----------------------------------------------------------- */

static void print_object(const struct object *object, bool first)
{
	printf("%s{\"due\": ", first ? "" : ", ");
	print_seconds((int64_t)object->due_ns);
	printf(", \"start\": ");
	print_seconds((int64_t)object->start_ns);
	printf(", \"bytes\": %" PRIu64 ", \"seconds\": ", object->bytes);
	if (object->took_ns < 0)
		printf("null");
	else
		print_seconds(object->took_ns);
	printf(", \"session\": %u, \"page\": %u}", object->session, object->page);
}

static void print_responses(const struct client *client)
{
	uint64_t *took = malloc((client->count + 1) * sizeof(*took));
	size_t count = 0;
	double sum = 0;

	if (!took)
		fail("memory for %zu response times: none left", client->count);
	for (size_t i = 0; i < client->count; i++) {
		if (client->objects[i].took_ns < 0)
			continue;
		took[count++] = (uint64_t)client->objects[i].took_ns;
		sum += (double)client->objects[i].took_ns;
	}
	qsort(took, count, sizeof(*took), by_value);
	printf("\"response_s\": ");
	print_summary(took, count, sum);
	free(took);
}

static void print_result(const struct running *running)
{
	const struct client *client = running->client;
	uint64_t finished = 0, asked = 0, received = 0;

	for (size_t i = 0; i < client->count; i++) {
		finished += client->objects[i].took_ns >= 0;
		asked += client->objects[i].bytes;
		received += client->objects[i].received;
	}
	printf("{\"zero_ns\": %" PRIu64 ", \"summary\": {\"count\": %zu, \"finished\": %" PRIu64
	       ", \"unfinished\": %" PRIu64 ", \"failed\": %" PRIu64 ", \"bytes_asked\": %" PRIu64
	       ", \"bytes_received\": %" PRIu64 ", \"most_at_once\": %" PRIu64 ", \"late_max_s\": ",
	       running->zero_ns, client->count, finished, client->count - finished, running->failed,
	       asked, received, running->most);
	print_seconds((int64_t)running->late_ns);
	printf(", ");
	print_responses(client);
	printf(", ");
	client->print_more(client);
	printf("}, \"objects\": [");
	for (size_t i = 0; i < client->count && !client->brief; i++)
		print_object(&client->objects[i], !i);
	printf("]}\n");
}

static const char *remedy(int error)
{
	if (error == ECONNREFUSED)
		return "; is web-server running there?";
	if (error == EMFILE)
		return "; raise `ulimit -n`, or ask for less at once";
	if (error == EADDRNOTAVAIL)
		return "; widen net.ipv4.ip_local_port_range, or ask for less at once";
	if (error == ENETUNREACH || error == EHOSTUNREACH)
		return "; look at the routes here";
	return "";
}

int client_run(struct client *client)
{
	struct running running = { .client = client };

	if (client->dry_run) {
		dry_run(client);
		print_result(&running);
		return EXIT_SUCCESS;
	}
	running.allowed = (uint64_t)connections_allowed();
	loop_open(&running.loop);
	running.zero_ns = now_ns() + client->start_ns;
	run(&running);
	print_result(&running);
	if (running.failed)
		warn("%" PRIu64 " of %zu objects of %s port %u failed, the first: %s%s",
		     running.failed, client->count, client->server.text, client->server.port,
		     strerror(running.first_error), remedy(running.first_error));
	/* some may fail on a bad path; if all fail, nothing was measured */
	return running.failed && running.failed == client->count ? EXIT_FAILURE : EXIT_SUCCESS;
}
