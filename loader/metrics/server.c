// SPDX-License-Identifier: GPL-2.0-only
/* The page over HTTP: see server.h. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "metrics/microhttpd.h"
#include "metrics/reader.h"
#include "metrics/server.h"
#include "out/errors.h"
#include "out/ticker.h"
#include "util/clock.h"
#include "util/memory.h"
#include "util/text.h"

#define CONNECTIONS_MOST 32
#define CONNECTIONS_KEPT 24 /* the other places are of those that are being closed */
#define SILENCE_MOST_S 10
#define REQUEST_BYTES_MOST 16384
#define TICK_NS 1000000000ULL /* how often silent connections are looked for */
#define RUNS_MOST 64 /* without a look at the signals */

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_MEDIA "application/openmetrics-text"
#define OPENMETRICS_TYPE OPENMETRICS_MEDIA "; version=1.0.0; charset=utf-8"
#define PLAIN_TYPE "text/plain; charset=utf-8"

static struct microhttpd mhd;

/* What was gathered last in one of the formats. */
struct page {
	struct MHD_Response *response; /* NULL: nothing yet */
	unsigned int status;
	uint64_t until_ns;
};

struct server {
	const char *what;
	enum server_format format;
	int reader_fd;
	int err; /* the exit code once there is no reader any more */
	struct MHD_Daemon *daemon;
	struct page pages[2]; /* by whether it is OpenMetrics */
	struct {
		struct MHD_Connection *connection;
		int fd;
	} kept[CONNECTIONS_KEPT]; /* the oldest first */
	unsigned int n_kept;
	bool freed; /* a connection is gone: at the limit the library accepts again in its next run */
};

/* A response with a body that was allocated, or whose `mode` says that it never goes. */
static struct MHD_Response *response_of(char *body, size_t size, enum MHD_ResponseMemoryMode mode,
					const char *type)
{
	struct MHD_Response *response = mhd.create_response_from_buffer(size, body, mode);

	if (!response || !mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type))
		out_of_memory();
	return response;
}

/* Returns false if a signal came first: there is no new page. */
static bool gather(struct server *server, bool openmetrics)
{
	struct page *page = &server->pages[openmetrics];
	const char *type = openmetrics ? OPENMETRICS_TYPE : PROMETHEUS_TYPE;
	size_t size;
	char *body;
	int err, lost = reader_ask(server->reader_fd, openmetrics, &body, &size, &err);

	if (lost == -ECANCELED)
		return false;
	if (lost) {
		server->err = FAIL(EXIT_FAILED, .what = server->what,
				   .on = "the process that reads", .why = strerror(-lost),
				   .remedy = "start it again; its last words are above");
		err = server->err;
		body = must_copy("no page\n");
		size = strlen(body);
	}
	if (err)
		type = PLAIN_TYPE;
	if (page->response)
		mhd.destroy_response(page->response); /* who is still sent it keeps it */
	page->response = response_of(body, size, MHD_RESPMEM_MUST_FREE, type);
	page->status = err ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK;
	page->until_ns = monotonic_ns() + SERVER_CACHE_NS;
	if (!mhd.add_response_header(page->response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT))
		out_of_memory();
	return true;
}

/* Without a look at weights: who names OpenMetrics at all reads it. */
static bool wants_openmetrics(const struct server *server, struct MHD_Connection *connection)
{
	const char *accept =
		mhd.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);

	if (server->format != SERVER_AS_ASKED)
		return server->format == SERVER_OPENMETRICS;
	return accept && strcasestr(accept, OPENMETRICS_MEDIA);
}

static enum MHD_Result answer_page(struct server *server, struct MHD_Connection *connection)
{
	bool openmetrics = wants_openmetrics(server, connection);
	struct page *page = &server->pages[openmetrics];

	if ((!page->response || monotonic_ns() >= page->until_ns) && !gather(server, openmetrics))
		return MHD_NO; /* the connection ends */
	return mhd.queue_response(connection, page->status, page->response);
}

/* A line of ours; `allow` NULL: without that header. What is not answered well ends the connection. */
static enum MHD_Result answer_line(struct MHD_Connection *connection, unsigned int status,
				   const char *line, const char *allow)
{
	struct MHD_Response *response =
		response_of((char *)line, strlen(line), MHD_RESPMEM_PERSISTENT, PLAIN_TYPE);
	enum MHD_Result result = MHD_YES;

	if (allow)
		result = mhd.add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
	if (result && status != MHD_HTTP_OK)
		result = mhd.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (result)
		result = mhd.queue_response(connection, status, response);
	mhd.destroy_response(response);
	return result;
}

/* Each of several headers counts. Returns whether to go on. */
static enum MHD_Result look_for_body(void *has, enum MHD_ValueKind kind, const char *name,
				     const char *value)
{
	(void)kind;
	if ((!strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) && value && strcmp(value, "0")) ||
	    !strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING))
		*(bool *)has = true;
	return *(bool *)has ? MHD_NO : MHD_YES;
}

static bool has_body(struct MHD_Connection *connection)
{
	bool has = false;

	mhd.get_connection_values(connection, MHD_HEADER_KIND, look_for_body, &has);
	return has;
}

/* Called when the headers are there, and again when the request is complete. */
static enum MHD_Result answer(void *data, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **complete)
{
	bool is_page = !strcmp(url, SERVER_PATH);

	(void)version;
	(void)upload;
	(void)upload_size;
	if (!is_page && strcmp(url, "/"))
		return answer_line(connection, MHD_HTTP_NOT_FOUND,
				   "not found: the metrics are at " SERVER_PATH "\n", NULL);
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				   "only GET and HEAD are allowed\n", "GET, HEAD");
	if (has_body(connection))
		return answer_line(connection, MHD_HTTP_CONTENT_TOO_LARGE,
				   "a request has no body here\n", NULL);
	if (!*complete) {
		*complete = data;
		return MHD_YES;
	}
	return is_page ? answer_page(data, connection)
		       : answer_line(connection, MHD_HTTP_OK,
				     "ccbpf: the metrics are at " SERVER_PATH "\n", NULL);
}

static void forget(struct server *server, unsigned int i)
{
	server->n_kept--;
	memmove(&server->kept[i], &server->kept[i + 1],
		(server->n_kept - i) * sizeof(server->kept[0]));
}

/* A connection was accepted, or is gone. */
static void on_connection(void *data, struct MHD_Connection *connection, void **unused,
			  enum MHD_ConnectionNotificationCode what)
{
	struct server *server = data;
	const union MHD_ConnectionInfo *info;

	(void)unused;
	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		server->freed = true;
		for (unsigned int i = 0; i < server->n_kept; i++)
			if (server->kept[i].connection == connection)
				forget(server, i);
		return;
	}
	info = mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	if (!info)
		return;
	if (server->n_kept == CONNECTIONS_KEPT) {
		shutdown(server->kept[0].fd, SHUT_RDWR); /* the library finds its end */
		forget(server, 0);
	}
	server->kept[server->n_kept].connection = connection;
	server->kept[server->n_kept++].fd = info->connect_fd;
}

/* All that can be done without waiting. */
static void run(struct server *server)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;

	for (int i = 0; i < RUNS_MOST; i++) {
		server->freed = false;
		mhd.run(server->daemon);
		if (!server->freed &&
		    (mhd.get_timeout(server->daemon, &wait_ms) != MHD_YES || wait_ms))
			return;
	}
}

static int serve(struct server *server, int (*announce)(const void *data), const void *data)
{
	const union MHD_DaemonInfo *info =
		mhd.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	struct ticker ticker;
	int err = ticker_open(&ticker, server->what, TICK_NS, 0, info->epoll_fd);

	if (err)
		return err;
	err = announce(data);
	while (!err && !server->err && !(ticker_wait(&ticker) & TICK_END))
		run(server);
	ticker_close(&ticker);
	return err ?: server->err;
}

int server_load(const char *what)
{
	return microhttpd_load(what, &mhd);
}

int server_run(const char *what, int listen_fd, int reader_fd, enum server_format format,
	       int (*announce)(const void *data), const void *data)
{
	struct server server = { .what = what, .format = format, .reader_fd = reader_fd };
	int err;

	signal(SIGPIPE, SIG_IGN); /* a reader that leaves ends its connection */
	server.daemon = mhd.start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, answer, &server, MHD_OPTION_LISTEN_SOCKET, listen_fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)CONNECTIONS_MOST,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)SILENCE_MOST_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES_MOST,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, &server, MHD_OPTION_END);
	if (!server.daemon) {
		close(listen_fd);
		return FAIL(EXIT_FAILED, .what = what, .on = "HTTP",
			    .why = text("libmicrohttpd %s does not start", mhd.get_version()),
			    .remedy = "see whether open files or memory are short: `ulimit -a`");
	}
	err = serve(&server, announce, data);
	mhd.stop_daemon(server.daemon);
	for (size_t i = 0; i < sizeof(server.pages) / sizeof(server.pages[0]); i++)
		if (server.pages[i].response)
			mhd.destroy_response(server.pages[i].response);
	return err;
}
