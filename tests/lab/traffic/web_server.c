// SPDX-License-Identifier: GPL-2.0-only
/* web-server: sends as many bytes as each connection asks for. */
#include "traffic.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MAX 32 /* "GET 1000000000000\r\n" and some */
#define BACKLOG 4096
#define CHUNK_BYTES 262144
#define TURN_BYTES (4 * CHUNK_BYTES) /* before others have their turn */
#define ACCEPTS 64 /* likewise */
#define SWEEP_NS (10 * NS_PER_S)
#define IDLE_NS (600 * NS_PER_S) /* without a byte: the client is gone */

struct connection {
	int fd; /* -1: free */
	bool sending;
	uint8_t request_bytes;
	char request[REQUEST_MAX + 1];
	uint64_t left;
	uint64_t moved_ns; /* when something last happened */
	int next_free;
};

struct server {
	struct loop loop;
	int listener;
	bool listening; /* off while all places are taken */
	uint64_t for_ns;
	const char *controller;
	struct connection *connections;
	int places;
	int first_free;
	uint64_t open, most;
	uint64_t accepted, served, bytes, bad, aborted, idle;
};

static const char zeros[CHUNK_BYTES];

static void listen_again(struct server *server, bool on)
{
	if (server->listening == on)
		return;
	server->listening = on;
	loop_rewatch(&server->loop, server->listener, KEY_LISTENER, on ? EPOLLIN : 0);
}

static void end_connection(struct server *server, int index, uint64_t *counter)
{
	struct connection *connection = &server->connections[index];

	(*counter)++;
	close(connection->fd); /* takes it out of epoll as well */
	connection->fd = -1;
	connection->next_free = server->first_free;
	server->first_free = index;
	server->open--;
	listen_again(server, true);
}

static void push(struct server *server, int index)
{
	struct connection *connection = &server->connections[index];
	uint64_t turn = TURN_BYTES;

	while (connection->left && turn >= CHUNK_BYTES) {
		uint64_t most = connection->left < CHUNK_BYTES ? connection->left : CHUNK_BYTES;
		ssize_t done = send(connection->fd, zeros, most, MSG_NOSIGNAL);

		if (done < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (done < 0) {
			end_connection(server, index, &server->aborted);
			return;
		}
		connection->left -= (uint64_t)done;
		server->bytes += (uint64_t)done;
		connection->moved_ns = now_ns();
		turn -= CHUNK_BYTES;
	}
	if (!connection->left)
		end_connection(server, index, &server->served);
}

/* "GET <bytes>", an optional carriage return, nothing else. */
static bool request_parse(const char *line, uint64_t *bytes)
{
	const char *digits = line + 4;
	char *end;

	if (strncmp(line, "GET ", 4) || *digits < '0' || *digits > '9')
		return false;
	errno = 0;
	*bytes = strtoull(digits, &end, 10);
	if (*end == '\r')
		end++;
	return !errno && !*end && (double)*bytes <= OBJECT_BYTES_MAX;
}

static void take_request(struct server *server, int index)
{
	struct connection *connection = &server->connections[index];
	ssize_t done = recv(connection->fd, connection->request + connection->request_bytes,
			    REQUEST_MAX - connection->request_bytes, 0);
	char *line_end;

	if (done < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (done <= 0) {
		end_connection(server, index, &server->aborted);
		return;
	}
	connection->request_bytes += (uint8_t)done;
	connection->request[connection->request_bytes] = 0;
	connection->moved_ns = now_ns();
	line_end = strchr(connection->request, '\n');
	if (line_end)
		*line_end = 0;
	else if (connection->request_bytes < REQUEST_MAX)
		return; /* the rest is still to come */
	if (!line_end || !request_parse(connection->request, &connection->left)) {
		end_connection(server, index, &server->bad);
		return;
	}
	connection->sending = true;
	loop_rewatch(&server->loop, connection->fd, (uint64_t)index, EPOLLOUT);
	push(server, index);
}

static void take_connections(struct server *server)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd, index = server->first_free;

		if (index < 0) {
			listen_again(server, false);
			return;
		}
		fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			fail("accept: %s with %" PRIu64 " connections open; raise `ulimit -n`",
			     strerror(errno), server->open);
		if (fd < 0)
			return; /* no connection waits, or it was aborted */
		server->first_free = server->connections[index].next_free;
		server->connections[index] = (struct connection){ .fd = fd, .moved_ns = now_ns() };
		server->accepted++;
		if (++server->open > server->most)
			server->most = server->open;
		loop_watch(&server->loop, fd, (uint64_t)index, EPOLLIN);
	}
}

static void sweep(struct server *server, uint64_t now)
{
	for (int i = 0; i < server->places; i++)
		if (server->connections[i].fd >= 0 &&
		    now - server->connections[i].moved_ns > IDLE_NS)
			end_connection(server, i, &server->idle);
}

static void run(struct server *server, uint64_t end)
{
	uint64_t swept = now_ns(), now;

	while (!server->loop.ended && (now = now_ns()) < end) {
		struct epoll_event events[EVENTS];
		uint64_t wake = swept + SWEEP_NS < end ? swept + SWEEP_NS : end;
		int count = loop_wait(&server->loop, wake, events);

		for (int i = 0; i < count; i++) {
			uint64_t key = events[i].data.u64;

			if (key == KEY_LISTENER)
				take_connections(server);
			else if (server->connections[key].sending)
				push(server, (int)key);
			else
				take_request(server, (int)key);
		}
		if (now - swept >= SWEEP_NS) {
			sweep(server, now);
			swept = now;
		}
	}
}

static void places_open(struct server *server)
{
	server->places = connections_allowed();
	server->connections = calloc((size_t)server->places, sizeof(*server->connections));
	if (!server->connections)
		fail("memory for %d connections: none left", server->places);
	for (int i = 0; i < server->places; i++) {
		server->connections[i].fd = -1;
		server->connections[i].next_free = i + 1 < server->places ? i + 1 : -1;
	}
}

static void print_result(const struct server *server)
{
	printf("{\"connections\": %" PRIu64 ", \"served\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"bad_requests\": %" PRIu64 ", \"aborted\": %" PRIu64 ", \"idle\": %" PRIu64
	       ", \"open\": %" PRIu64 ", \"most_at_once\": %" PRIu64 "}\n",
	       server->accepted, server->served, server->bytes, server->bad, server->aborted,
	       server->idle, server->open, server->most);
}

int run_web_server(const struct command *self, int argc, char **argv)
{
	static struct server server = { .for_ns = (uint64_t)FOR_MAX_S * NS_PER_S,
					.listening = true };
	const char *bind_text = NULL, *port;
	const struct option_spec specs[] = {
		{ "for", 0, OPTION_SECONDS, &server.for_ns, 0.001, FOR_MAX_S, "S",
		  "how long (a day, or until SIGTERM)" },
		{ "bind", 0, OPTION_TEXT, &bind_text, 0, 0, "ADDR", "listen only at this address" },
		{ "controller", 'C', OPTION_TEXT, &server.controller, 0, 0, "NAME",
		  "congestion control of what is sent" },
	};
	struct address bound;

	options_parse(self, specs, sizeof(specs) / sizeof(specs[0]), argc, argv, &port, 1);
	places_open(&server);
	loop_open(&server.loop);
	server.listener = socket_bound(SOCK_STREAM, bind_text, port, &bound);
	socket_controller(server.listener, server.controller); /* inherited */
	if (listen(server.listener, BACKLOG))
		fail("listen at %s port %u: %s; take another PORT", bound.text, bound.port,
		     strerror(errno));
	loop_watch(&server.loop, server.listener, KEY_LISTENER, EPOLLIN);
	say_ready(self->name, bound.port);
	run(&server, now_ns() + server.for_ns);
	print_result(&server);
	return 0;
}
