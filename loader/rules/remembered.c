// SPDX-License-Identifier: GPL-2.0-only
/* The sockets that our programs remember: see remembered.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "out/errors.h"
#include "rules/remembered.h"
#include "sys/namespaces.h"
#include "sys/objects.h"
#include "sys/records.h"
#include "util/memory.h"
#include "util/text.h"

#define WHAT "flows"
#define AT_ONCE 4 /* maps for which one object of bpf/chosen_tcp.bpf.c has programs */

typedef void each_socket(const struct remembered *map, const struct ccbpf_chosen_record *record);

/* The maps, and who wants their sockets. */
struct walk {
	const char *maps;
	size_t n, size;
	each_socket *each;
	struct bpf_link **links; /* of the iterators over TCP sockets, one for each map */
};

static const struct remembered *map_at(const struct walk *walk, size_t i)
{
	return (const void *)(walk->maps + i * walk->size);
}

/* What records_read() hands to each record. */
struct reading {
	const struct remembered *map;
	each_socket *each;
};

static void hand_over(void *data, const void *record)
{
	const struct reading *reading = data;

	reading->each(reading->map, record);
}

static void read_all(const struct walk *walk, size_t i, int fd)
{
	struct reading reading = { map_at(walk, i), walk->each };

	if (fd < 0)
		return;
	records_read(fd, sizeof(struct ccbpf_chosen_record), hand_over, &reading);
	close(fd);
}

/* --- by the kernel's iterator over a map ------------------------------------------ */

static struct bpf_link *attach(const struct bpf_program *program, int map_fd)
{
	union bpf_iter_link_info info = { .map.map_fd = map_fd };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));

	return bpf_program__attach_iter(program, &opts);
}

/* The iterator, loaded once for all looks of this process; NULL: the kernel refuses it. */
static const struct bpf_program *storage_iterator(void)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "chosen");
	static struct bpf_object *obj;
	static bool tried;

	if (!tried) {
		obj = bpf_object__open_mem(ccbpf_object_chosen,
					   ccbpf_object_chosen_end - ccbpf_object_chosen, &opts);
		if (obj && bpf_object__load(obj)) {
			bpf_object__close(obj);
			obj = NULL;
		}
	}
	tried = true;
	return obj ? bpf_object__next_program(obj, NULL) : NULL;
}

static void by_storage(const struct walk *walk, const struct bpf_program *iterator)
{
	for (size_t i = 0; i < walk->n; i++) {
		struct bpf_link *link = attach(iterator, map_at(walk, i)->fd);

		read_all(walk, i, link ? bpf_iter_create(bpf_link__fd(link)) : -1);
		bpf_link__destroy(link);
	}
}

/* --- by a look at all TCP sockets -------------------------------------------------- */

/* Put map i into the object; without it, leave out what is for it. Returns 0 or -errno. */
static int put(struct bpf_object *obj, const struct walk *walk, size_t first, size_t i)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, text("remembered_%zu", i));
	struct bpf_program *program =
		bpf_object__find_program_by_name(obj, text("chosen_tcp_%zu", i));
	int err;

	if (!map || !program)
		return -ENOENT;
	if (first + i < walk->n)
		return bpf_map__reuse_fd(map, map_at(walk, first + i)->fd);
	err = bpf_map__set_autocreate(map, false);
	if (!err)
		err = bpf_program__set_autoload(program, false);
	return err;
}

/*
 * Iterators over the sockets that are in the maps from `first` on, at most AT_ONCE. They live as long as
 * their links; NULL: the kernel has none.
 */
static void over_sockets(struct walk *walk, size_t first)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "chosen_tcp");
	struct bpf_object *obj =
		bpf_object__open_mem(ccbpf_object_chosen_tcp,
				     ccbpf_object_chosen_tcp_end - ccbpf_object_chosen_tcp, &opts);
	int err = obj ? 0 : -errno;

	for (size_t i = 0; !err && i < AT_ONCE; i++)
		err = put(obj, walk, first, i);
	if (!err)
		err = bpf_object__load(obj);
	for (size_t i = 0; !err && i < AT_ONCE && first + i < walk->n; i++)
		walk->links[first + i] = bpf_program__attach_iter(
			bpf_object__find_program_by_name(obj, text("chosen_tcp_%zu", i)), NULL);
	bpf_object__close(obj);
}

/* The namespace of an iterator is that of the process that makes it. */
static int make(void *link)
{
	int fd = bpf_iter_create(bpf_link__fd(link));

	return fd < 0 ? -errno : fd;
}

static int visit(void *data, const struct netns *netns)
{
	const struct walk *walk = data;

	for (size_t i = 0; i < walk->n; i++)
		if (walk->links[i])
			read_all(walk, i, netns_inside(WHAT, netns, make, walk->links[i]));
	return EXIT_OK;
}

/* Returns whether there is an iterator for each map. */
static bool by_sockets(struct walk *walk)
{
	bool each = true, any = false;

	walk->links = must_alloc(walk->n, sizeof(*walk->links));
	for (size_t first = 0; first < walk->n; first += AT_ONCE)
		over_sockets(walk, first);
	for (size_t i = 0; i < walk->n; i++) {
		each = each && walk->links[i];
		any = any || walk->links[i];
	}
	if (any)
		netns_each(WHAT, visit, walk);
	for (size_t i = 0; i < walk->n; i++)
		bpf_link__destroy(walk->links[i]);
	free(walk->links);
	return each;
}

bool remembered_each(const struct remembered *maps, size_t n, size_t size, each_socket *each)
{
	struct walk walk = { .maps = (const char *)maps, .n = n, .size = size, .each = each };
	const struct bpf_program *iterator = storage_iterator();

	if (!iterator)
		return by_sockets(&walk);
	by_storage(&walk, iterator);
	return true;
}
