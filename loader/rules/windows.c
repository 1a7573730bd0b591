// SPDX-License-Identifier: GPL-2.0-only
/* The windows of connections that go on without the program: see windows.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ccbpf/identity.h"
#include "out/errors.h"
#include "rules/object.h"
#include "rules/windows.h"
#include "sys/namespaces.h"
#include "sys/objects.h"
#include "util/text.h"

#define MAP_RECEIVES "receives"
#define MAP_FLOWS "flows"
#define MAP_OPENING ".rodata.opening"
#define MAP_LIVE "live"
#define PASSES 2 /* the second finds what the first has skipped */
#define READS_MOST 1000 /* EAGAIN comes after a million sockets */
#define OPENING_US 300000 /* two round trips of a long path */

static const struct map_shape receives_shape = { BPF_MAP_TYPE_SK_STORAGE, sizeof(int), 0, 0 };
static const struct map_shape flows_shape = { BPF_MAP_TYPE_HASH, sizeof(__u64),
					      sizeof(struct ccbpf_flow), 0 };

struct windows windows_of(int program_fd, bool foreign)
{
	return (struct windows){
		.receives_fd = sockops_open_map(program_fd, MAP_RECEIVES, &receives_shape),
		.flows_fd = sockops_open_map(program_fd, MAP_FLOWS, &flows_shape),
		.foreign = foreign,
	};
}

struct windows windows_at(const char *link, bool foreign)
{
	struct windows windows = { -1, -1, false };
	uint64_t cgroup;
	int program = sockops_at(link, &cgroup);

	if (program < 0)
		return windows;
	windows = windows_of(program, foreign);
	close(program);
	return windows;
}

void windows_close(struct windows *windows)
{
	if (windows->receives_fd >= 0)
		close(windows->receives_fd);
	if (windows->flows_fd >= 0)
		close(windows->flows_fd);
	*windows = (struct windows){ -1, -1, false };
}

/* The number of its records. A deletion meanwhile may start the walk anew: it is bounded. */
static unsigned int count(const struct windows *windows, uint64_t instance)
{
	struct ccbpf_flow record;
	__u64 key, *previous = NULL;
	unsigned int n = 0;

	for (int i = 0; i < 2 * CCBPF_FLOWS_MAX; i++) {
		if (bpf_map_get_next_key(windows->flows_fd, previous, &key))
			break;
		previous = &key;
		n += !bpf_map_lookup_elem(windows->flows_fd, &key, &record) &&
		     record.kind == CCBPF_KIND_rx_le && record.instance == instance;
	}
	return n;
}

bool windows_are_held(const struct windows *windows, uint64_t instance)
{
	if (windows->receives_fd < 0)
		return false;
	return windows->foreign || windows->flows_fd < 0 || count(windows, instance);
}

/* Let it find what is held. Returns 0 or -errno. */
static int share(struct bpf_object *obj, const struct windows *windows, unsigned int rules)
{
	struct bpf_map *receives = bpf_object__find_map_by_name(obj, MAP_RECEIVES);
	struct bpf_map *flows = bpf_object__find_map_by_name(obj, MAP_FLOWS);
	struct bpf_map *live = bpf_object__find_map_by_name(obj, MAP_LIVE);
	int err = receives && flows && live ? 0 : -ENODATA;

	if (!err)
		err = bpf_map__reuse_fd(receives, windows->receives_fd);
	if (!err)
		err = bpf_map__set_max_entries(live, rules ?: 1);
	if (!err)
		err = windows->flows_fd < 0 ? bpf_map__set_max_entries(flows, 1)
					    : bpf_map__reuse_fd(flows, windows->flows_fd);
	return err;
}

bool windows_same_layout(int receives_fd, const struct bpf_object *obj)
{
	const struct bpf_map *map = bpf_object__find_map_by_name(obj, MAP_RECEIVES);
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	return map && receives_fd >= 0 && !bpf_map_get_info_by_fd(receives_fd, &info, &size) &&
	       info.value_size == bpf_map__value_size(map);
}

/* Load it. Returns 0 or -errno. */
static int load(struct bpf_object *obj, const struct windows *windows,
		const struct ccbpf_rule *rules, unsigned int n)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, MAP_OPENING);
	struct ccbpf_rx_open opening = { .by_rule = !!rules };
	__u8 one = 1;
	int err;

	opening.foreign = windows->foreign || !windows_same_layout(windows->receives_fd, obj);
	err = map ? bpf_map__set_initial_value(map, &opening, sizeof(opening)) : -ENODATA;
	if (!err)
		err = share(obj, windows, n);
	if (!err)
		err = bpf_object__load(obj);
	for (unsigned int i = 0; !err && i < n; i++)
		err = bpf_map_update_elem(bpf_object__find_map_fd_by_name(obj, MAP_LIVE),
					  &rules[i].id, &one, BPF_ANY);
	return err;
}

/* The namespace of an iterator is that of the process that makes it. */
static int make(void *link)
{
	int fd = bpf_iter_create(bpf_link__fd(link));

	return fd < 0 ? -errno : fd;
}

static int visit(void *link, const struct netns *netns)
{
	for (int i = 0; i < PASSES; i++) {
		int fd = netns_inside(MAP_RECEIVES, netns, make, link), reads = 0;
		char nothing[8];

		while (fd >= 0 && read(fd, nothing, sizeof(nothing)) < 0 &&
		       (errno == EAGAIN || errno == EINTR) && reads++ < READS_MOST)
			;
		if (fd >= 0)
			close(fd);
	}
	return EXIT_OK;
}

void windows_open(const struct windows *windows, const struct ccbpf_rule *rules, unsigned int n)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "rx_open");
	struct bpf_object *obj;
	struct bpf_link *link = NULL;

	if (windows->receives_fd < 0)
		return;
	obj = bpf_object__open_mem(ccbpf_object_rx_open,
				   ccbpf_object_rx_open_end - ccbpf_object_rx_open, &opts);
	if (obj && !load(obj, windows, rules, n))
		link = bpf_program__attach_iter(bpf_object__next_program(obj, NULL), NULL);
	if (link)
		netns_each(MAP_RECEIVES, visit, link);
	bpf_link__destroy(link);
	bpf_object__close(obj);
}

void windows_wait(const char *what, const struct windows *windows, uint64_t instance)
{
	unsigned int left = windows->flows_fd < 0 ? 0 : count(windows, instance);

	if (left)
		usleep(OPENING_US);
	if (left)
		left = count(windows, instance);
	if (left)
		note(what,
		     text("the receive window of %u connection%s stays small: the network namespace was not found",
			  left, left == 1 ? "" : "s"),
		     "end their programs, or let them connect anew");
}
