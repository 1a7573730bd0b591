// SPDX-License-Identifier: GPL-2.0-only
/* What `trace --plot` draws: see recording.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cc/flowjson.h"
#include "cc/running.h"
#include "cmd/plot.h"
#include "cmd/recording.h"
#include "out/errors.h"
#include "out/json.h"
#include "sys/pins.h"
#include "sys/shared.h"
#include "util/clock.h"
#include "util/text.h"

static const char *directory(void)
{
	const char *given = getenv("TMPDIR");

	return given && *given ? given : "/tmp";
}

/* The tool of the picture reads it under its number. */
static int open_file(struct recording *recording)
{
	int fd = open(directory(), O_TMPFILE | O_RDWR, 0600);

	recording->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (recording->file)
		return EXIT_OK;
	return fail_file("record", directory(), errno, "set TMPDIR to a directory for files");
}

int recording_open(struct recording *recording, const char *what, const char *picture)
{
	int err;

	*recording = (struct recording){ .what = what, .picture = picture, .flows_fd = -1 };
	if (!picture)
		return EXIT_OK;
	err = plot_draw(what, picture, NULL, 0);
	if (!err)
		err = open_file(recording);
	return err;
}

int recording_open_flows(struct recording *recording)
{
	int err;

	if (!recording->picture)
		return EXIT_OK;
	err = shared_open(recording->what, SHARED_FLOWS, &recording->flows_fd);
	if (!err && recording->flows_fd < 0)
		err = running_none(recording->what, "flows");
	return err;
}

/* One line, whatever --pretty says of stdout. */
static void write_line(struct recording *recording, struct json_object *doc)
{
	fprintf(recording->file, "%s\n",
		json_object_to_json_string_ext(doc, JSON_C_TO_STRING_PLAIN));
	json_object_put(doc);
}

int recording_sample(struct recording *recording, bool (*wanted)(const void *data, __u32 kind),
		     const void *data)
{
	struct json_object *doc, *list;
	struct flow *flows;
	size_t n;
	int err;

	if (!recording->picture)
		return EXIT_OK;
	err = flows_read(recording->flows_fd, &flows, &n);
	if (err)
		return fail_errno(recording->what, pin_path(shared_name(SHARED_FLOWS), NULL), err);
	doc = json_object_new_object();
	list = json_object_new_array();
	add_number(doc, "time_ns", monotonic_ns());
	json_object_object_add(doc, "flows", list);
	for (size_t i = 0; i < n; i++)
		if (wanted(data, flows[i].record.kind))
			json_object_array_add(list, flow_json(&flows[i]));
	free(flows);
	recording->any |= json_object_array_length(list) > 0;
	write_line(recording, doc);
	return EXIT_OK;
}

void recording_event(struct recording *recording, const struct ccbpf_event *event)
{
	if (recording->picture)
		write_line(recording, event_json(event));
}

int recording_draw(struct recording *recording)
{
	const char *file;
	int err;

	if (!recording->picture)
		return EXIT_OK;
	if (!recording->any)
		return FAIL(EXIT_FAILED, .what = recording->what, .on = recording->picture,
			    .why = "there was no flow while the trace ran",
			    .remedy = "start the transfer first: `ccbpf flows` shows it");
	if (fflush(recording->file) || ferror(recording->file))
		return FAIL(
			EXIT_FAILED, .what = recording->what, .on = recording->picture,
			.why = text("what was recorded could not be written to %s", directory()),
			.remedy =
				"let TMPDIR name a directory with more space, or trace for a shorter time");
	file = text("/proc/self/fd/%d", fileno(recording->file));
	err = plot_draw(recording->what, recording->picture, &file, 1);
	if (!err)
		note(recording->what, text("the picture is %s", recording->picture), NULL);
	return err;
}

void recording_close(struct recording *recording)
{
	if (recording->file)
		fclose(recording->file);
	if (recording->flows_fd >= 0)
		close(recording->flows_fd);
}
