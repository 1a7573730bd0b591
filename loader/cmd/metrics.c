// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf metrics [--format FORMAT] [--units] [--output FILE | --listen [ADDRESS:]PORT]: counters and
 * gauges of the controllers, rules, runs and queues as text, for Prometheus. FILE is written beside itself
 * and renamed, so that a reader never sees half of it. --listen serves the same text over HTTP until
 * a signal: see metrics/server.h. It says where on stderr, under -j on stdout, as soon as
 * connections are accepted:
 *
 *   {"url": "http://127.0.0.1:9464/metrics", "address": "127.0.0.1", "port": 9464}
 *
 * Two processes serve. The one that listens has no privilege once its socket is bound: no capability, and, started by root, another
 * user (capabilities_keep_none()). The other one gathers the pages (metrics/reader.h). It stays the user whose the pins
 * are, and keeps what reading them needs (capabilities_keep_reading()).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "metrics/metrics.h"
#include "metrics/reader.h"
#include "metrics/server.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/listener.h"
#include "sys/pins.h"
#include "util/capabilities.h"
#include "util/file.h"
#include "util/text.h"

#define WHAT "print metrics"

enum own_option {
	OWN_FORMAT,
	OWN_OUTPUT,
	OWN_LISTEN,
	OWN_UNITS,
};

static int parse_format(const char *given, enum server_format *format)
{
	bool openmetrics = given && !strcmp(given, "openmetrics");

	*format = openmetrics ? SERVER_OPENMETRICS : given ? SERVER_PROMETHEUS : SERVER_AS_ASKED;
	if (!given || openmetrics || !strcmp(given, "prometheus"))
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = WHAT, .on = text("--format %s", given),
		    .why = "there is no such format", .remedy = "prometheus or openmetrics");
}

static int check_one_place(const struct request *request)
{
	if (!request->own[OWN_OUTPUT] || !request->own[OWN_LISTEN])
		return EXIT_OK;
	return FAIL(EXIT_USAGE, .what = WHAT, .why = "--output and --listen exclude each other",
		    .remedy = "give one of them");
}

/* What is renamed into the place of a device or a link takes its place for everybody. */
static int check_file(const char *path)
{
	struct stat st;

	if (!path || lstat(path, &st) || S_ISREG(st.st_mode))
		return EXIT_OK;
	return FAIL(EXIT_FAILED, .what = WHAT, .on = path, .why = "it is not a regular file",
		    .remedy = "name a file, or leave --output out and read stdout");
}

static int print(const char *path, bool openmetrics, bool units)
{
	size_t size;
	char *page;
	int err = metrics_page(WHAT, openmetrics, units, &page, &size);

	if (!err && !path)
		fwrite(page, 1, size, stdout);
	if (!err && path) {
		err = replace_file(path, page, size);
		err = err ? fail_file(WHAT, path, err, REMEDY_WRITE) : EXIT_OK;
	}
	free(page);
	return err;
}

/* Where it listens, for a person or for a script that waits for it. */
static int announce(const void *data)
{
	const struct listener *listener = data;
	const char *url = text("http://%s" SERVER_PATH, listener_place(listener));
	struct json_object *doc;

	if (!output.json) {
		fprintf(stderr, "listening on %s\n", url);
		return EXIT_OK;
	}
	doc = json_object_new_object();
	add_text(doc, "url", url);
	add_text(doc, "address", listener_address(listener));
	add_number(doc, "port", listener_port(listener));
	output_json(doc);
	return output_finish();
}

static int given_up(int err)
{
	return err ? fail_errno(WHAT, "give up its capabilities", err) : EXIT_OK;
}

static int prepare_reader(void)
{
	bool by_process = !strncmp(pins_root(), "/proc/", strlen("/proc/"));

	return given_up(capabilities_keep_reading(by_process));
}

static int serve(const struct listener *listener, int reader_fd, enum server_format format)
{
	int err = server_load(WHAT);

	if (!err)
		err = given_up(capabilities_keep_none());
	if (!err)
		return server_run(WHAT, listener->fd, reader_fd, format, announce, listener);
	close(listener->fd);
	return err;
}

/* The reader is started first, so that it never has the socket that listens. */
static int listen_at(const char *given, enum server_format format, bool units)
{
	struct listener listener;
	int reader_fd = reader_start(WHAT, units, prepare_reader), err;

	if (reader_fd < 0)
		return -reader_fd;
	err = listener_open(given, SERVER_BACKLOG, &listener);
	if (!err)
		err = serve(&listener, reader_fd, format);
	close(reader_fd);
	return err;
}

static int metrics(const struct request *request)
{
	const char *path = request->own[OWN_OUTPUT], *at = request->own[OWN_LISTEN];
	enum server_format format;
	int err = request_no_args(request);

	if (!err)
		err = parse_format(request->own[OWN_FORMAT], &format);
	if (!err)
		err = check_one_place(request);
	if (!err)
		err = check_file(path);
	if (!err)
		err = kernel_require_reading(WHAT, NULL);
	if (err)
		return err;
	return at ? listen_at(at, format, request->own[OWN_UNITS])
		  : print(path, format == SERVER_OPENMETRICS, request->own[OWN_UNITS]);
}

static const struct argp_option options[] = {
	{ "format", OPTION_OWN + OWN_FORMAT, "FORMAT", 0,
	  "`prometheus` (text 0.0.4, the default: also for node_exporter) or `openmetrics`", 0 },
	{ "output", OPTION_OWN + OWN_OUTPUT, "FILE", 0, "write FILE in one step, by rename", 0 },
	{ "listen", OPTION_OWN + OWN_LISTEN, "PORT", 0,
	  "serve http://127.0.0.1:PORT" SERVER_PATH
	  " until a signal; elsewhere by ADDRESS:PORT or [ADDRESS]:PORT",
	  0 },
	{ "units", OPTION_OWN + OWN_UNITS, 0, 0,
	  "also by the cgroup of the sockets: at most 500, those that carried the most bytes", 0 },
	{ 0 },
};

const struct command cmd_metrics = {
	.name = "metrics",
	.args = "[--output FILE|--listen PORT]",
	.text = "Print counters for Prometheus",
	.more = "Metrics with `live` in their name are gauges: sums over the flows that exist now. Metrics that end with `_total` include the flows "
		"that have ended. --listen 0 takes a free port; 0.0.0.0 and [::] mean all addresses. The client's Accept "
		"chooses the format, unless --format is given. The process that listens has no capability; one beside it, which "
		"gathers the pages, keeps two of root's: cap_bpf and, for the maps of rules, cap_sys_admin.",
	.options = options,
	.run = metrics,
};
