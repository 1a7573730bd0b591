// SPDX-License-Identifier: GPL-2.0-only
/* The programs of a run: see programs.h. Their map `counts` is the same. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "out/errors.h"
#include "rules/object.h"
#include "rules/prepared.h"
#include "rules/programs.h"
#include "rules/windows.h"
#include "sys/attachment.h"
#include "sys/cgroup.h"
#include "sys/needs.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "sys/shared.h"
#include "util/file.h"
#include "util/text.h"

#define RMEM_MOST (64ul << 20) /* bytes: with so much an accepted connection has window scale 11 */
#define MAP_RUN ".rodata.run"

static const struct direction {
	unsigned int bit; /* CCBPF_RUN_... */
	const char *name, *object, *end, *pin;
} directions[] = {
	{ CCBPF_RUN_UPLOAD, "run", ccbpf_object_run, ccbpf_object_run_end, PIN_LINK },
	{ CCBPF_RUN_DOWNLOAD, "rx_le", ccbpf_object_rx_le, ccbpf_object_rx_le_end, PIN_RECEIVE },
};
#define DIRECTIONS (sizeof(directions) / sizeof(directions[0]))

/* Let the object use the map behind `*fd`; where there is none yet, what it makes is it. */
static int reuse(const char *what, const struct bpf_object *obj, const char *name, int fd)
{
	return fd < 0 ? EXIT_OK : object_reuse(what, obj, name, fd);
}

static int keep(const char *what, const struct bpf_object *obj, const char *name, int *fd)
{
	if (*fd < 0)
		*fd = fcntl(bpf_object__find_map_fd_by_name(obj, name), F_DUPFD_CLOEXEC, 3);
	return *fd < 0 ? fail_errno(what, name, -errno) : EXIT_OK;
}

static int load(const char *what, const struct direction *direction, struct run *run,
		struct bpf_object **obj)
{
	struct bpf_map *about, *counts;
	struct ccbpf_run *initial;
	int err = object_open(what, direction->name, direction->object, direction->end, obj);

	if (!err)
		err = object_map(what, *obj, MAP_RUN, sizeof(*initial), &about);
	if (!err)
		err = object_map(what, *obj, PIN_COUNTS, sizeof(run->counts), &counts);
	if (!err)
		err = reuse(what, *obj, PIN_COUNTS, run->counts_fd);
	if (err)
		return err;
	initial = object_initial(about);
	run->about.abi = initial->abi;
	*initial = run->about;
	run->known = true;
	err = shared_load(what, *obj);
	if (!err)
		err = keep(what, *obj, PIN_COUNTS, &run->counts_fd);
	return err;
}

/* Pin what says what it is. */
static int pin(const char *what, const struct run *run, const char *dir,
	       const struct bpf_object *obj)
{
	int about = bpf_object__find_map_fd_by_name(obj, MAP_RUN);
	int err = pin_make(what, about, pin_path(dir, PIN_RUN));

	if (!err)
		err = pin_make(what, run->counts_fd, pin_path(dir, PIN_COUNTS));
	return err;
}

static int make_cgroup(const char *what, struct run *run)
{
	int err = cgroup_make(run->about.cgroup);

	if (err == -EEXIST && prepared_is(run->about.cgroup))
		err = 0; /* `clean --all` left it to processes that were in it */
	if (!err)
		err = run->cgroup_fd = cgroup_open(run->about.cgroup);
	return err < 0 ? fail_errno(what, text("the cgroup %s", run->about.cgroup), err) : EXIT_OK;
}

int programs_begin(const char *what, struct run *run, const char *dir)
{
	struct bpf_object *obj[DIRECTIONS] = { NULL };
	const struct bpf_object *first = NULL;
	int err = EXIT_OK;

	for (size_t i = 0; !err && i < DIRECTIONS; i++) {
		if (!(run->about.directions & directions[i].bit))
			continue;
		err = load(what, &directions[i], run, &obj[i]);
		first = first ?: obj[i];
	}
	if (!err)
		err = pin(what, run, dir, first);
	if (!err)
		err = make_cgroup(what, run);
	for (size_t i = 0; !err && i < DIRECTIONS; i++)
		if (obj[i])
			err = sockops_attach(what, obj[i], run->cgroup_fd,
					     text("the cgroup %s", run->about.cgroup),
					     pin_path(dir, directions[i].pin));
	for (size_t i = 0; i < DIRECTIONS; i++)
		bpf_object__close(obj[i]);
	return err;
}

bool programs_can_receive(void)
{
	char lacks[256] = "";

	return !needs_missing(ccbpf_object_rx_le, ccbpf_object_rx_le_end, lacks, lacks,
			      sizeof(lacks)) &&
	       !*lacks;
}

static uint64_t attached(const char *path)
{
	uint64_t cgroup;
	int program = sockops_at(path, &cgroup);

	if (program >= 0)
		close(program);
	return cgroup;
}

const char *programs_receive_hindered(const char **remedy)
{
	unsigned long least, usual, most;
	char line[64];

	if (!read_line("/proc/sys/net/ipv4/tcp_timestamps", line, sizeof(line)) && *line == '0') {
		*remedy =
			"`sysctl net.ipv4.tcp_timestamps=1`: the delay of what comes is read from them";
		return "net.ipv4.tcp_timestamps=0: new connections are received as usual";
	}
	if (!read_line("/proc/sys/net/ipv4/tcp_rmem", line, sizeof(line)) &&
	    sscanf(line, "%lu %lu %lu", &least, &usual, &most) == 3 && most >= RMEM_MOST) {
		*remedy = "lower the third number of net.ipv4.tcp_rmem, for example to 33554432";
		return "net.ipv4.tcp_rmem of 64 MB or more: the windows of accepted connections shrink slowly or not at all";
	}
	return NULL;
}

uint64_t programs_attached(const char *dir)
{
	uint64_t cgroup = 0;

	for (size_t i = 0; !cgroup && i < DIRECTIONS; i++)
		cgroup = attached(pin_path(dir, directions[i].pin));
	return cgroup;
}

/* What is received from now on opens its connection's window. */
static void open_with_segments(const char *dir)
{
	struct ccbpf_run_counts counts;
	const struct map_shape shape = ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(counts));
	int fd = pin_open_map(pin_path(dir, PIN_COUNTS), &shape);
	uint32_t zero = 0;

	if (fd < 0)
		return;
	if (bpf_map_lookup_elem(fd, &zero, &counts) == 0) {
		counts.opening = 1;
		bpf_map_update_elem(fd, &zero, &counts, BPF_ANY);
	}
	close(fd);
}

void programs_open_windows(const char *what, const char *dir, const struct ccbpf_run *about)
{
	uint64_t instance = about ? about->started_ns : 0;
	struct windows windows = windows_at(pin_path(dir, PIN_RECEIVE), !about);

	if (windows_are_held(&windows, instance)) {
		if (about)
			open_with_segments(dir);
		windows_open(&windows, NULL, 0);
		windows_wait(what, &windows, instance);
	}
	windows_close(&windows);
}
