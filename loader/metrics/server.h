/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page over HTTP, for Prometheus, by libmicrohttpd, in the one thread that this process has.
 *
 *   GET, HEAD /metrics   200 and the page; 503 and why, where something could not be read
 *   GET, HEAD /          200 and a line that names /metrics
 *   another path         404
 *   another method       405
 *   a request's body     413
 *
 * A page is gathered at the request, and handed out again for SERVER_CACHE_NS, so that many readers
 * cost little. Who is slow, or many, takes nothing from the others:
 *
 *   a connection         is closed after 10 s of silence, and has 16 KiB for its request
 *   the 25th             closes the oldest one: half a request keeps nobody out
 *   the 33rd             waits in the kernel until those that are closed are gone
 *
 * There is no limit for one address: all that scrapes on this host comes from 127.0.0.1.
 */
#ifndef CCBPF_SERVER_H
#define CCBPF_SERVER_H

#include <stdbool.h>

#define SERVER_PATH "/metrics"
#define SERVER_CACHE_NS 1000000000ULL
#define SERVER_BACKLOG 128 /* connections that the kernel keeps until they are accepted */

enum server_format {
	SERVER_AS_ASKED, /* OpenMetrics where the client's Accept has it, else Prometheus' text */
	SERVER_PROMETHEUS,
	SERVER_OPENMETRICS,
};

/* Load the library, with the privileges that find it. Returns EXIT_OK, or the exit code after saying which package has it. */
int server_load(const char *what);

/*
 * Then serve what a reader gathers (reader.h), on a socket that listens, until a signal ends it (out/ticker.h) or
 * the reader is gone, and close that socket. `announce` is
 * called once signals do so; unless it returns EXIT_OK that is the end. Returns EXIT_OK, or the
 * exit code after saying why it cannot begin.
 */
int server_run(const char *what, int listen_fd, int reader_fd, enum server_format format,
	       int (*announce)(const void *data), const void *data);

#endif
