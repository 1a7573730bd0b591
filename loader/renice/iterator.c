// SPDX-License-Identifier: GPL-2.0-only
/*
 * The iterators over TCP sockets: see iterator.h.
 *
 * Before Linux 6.5 (6.1.42 of the series 6.1) the kernel ran an iterator's program with the
 * socket's spin lock held and softirqs off. A program that unhashes a listener, and so takes
 * the lock of a bucket of the hash table below that, can deadlock there. Ours takes none: it
 * calls the controllers' init() and release(), which run in just that context whenever a
 * packet opens or closes a connection. So it is used on those kernels as well.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "out/output.h"
#include "renice/iterator.h"
#include "sys/objects.h"
#include "sys/records.h"

struct object {
	const char *name, *begin, *end;
};

static const struct object sends = { "renice", ccbpf_object_renice, ccbpf_object_renice_end };
static const struct object receives = { "renice_rx", ccbpf_object_renice_rx,
					ccbpf_object_renice_rx_end };

/* Write the selection into the object that is not yet loaded. Returns 0 or -errno. */
static int configure(struct bpf_object *obj, const struct selection *selection)
{
	struct bpf_map *config = bpf_object__find_map_by_name(obj, ".rodata.config");
	struct bpf_map *inodes = bpf_object__find_map_by_name(obj, "inodes");
	size_t size = 0;
	void *value = config ? bpf_map__initial_value(config, &size) : NULL;

	if (size != sizeof(selection->config) || !inodes)
		return -ENODATA;
	memcpy(value, &selection->config, size);
	return bpf_map__set_max_entries(inodes, selection->n_inodes ?: 1);
}

/* Returns 0 or -errno. */
static int fill_inodes(struct bpf_object *obj, const struct selection *selection)
{
	int fd = bpf_map__fd(bpf_object__find_map_by_name(obj, "inodes"));
	uint8_t one = 1;

	for (size_t i = 0; i < selection->n_inodes; i++)
		if (bpf_map_update_elem(fd, &selection->inodes[i], &one, BPF_ANY))
			return -errno;
	return 0;
}

/* Let it find what is held. */
static int share(const char *what, const struct bpf_object *obj, const struct moved *moved)
{
	int err;

	if (!moved || moved->receives_fd < 0)
		return EXIT_OK;
	err = object_reuse(what, obj, "receives", moved->receives_fd);
	if (!err)
		err = object_reuse(what, obj, "flows", moved->flows_fd);
	return err;
}

int iterator_open(const char *what, const struct selection *selection, const struct moved *moved,
		  struct iterator *iterator)
{
	const struct object *object = ccbpf_renice_receives(&selection->config) ? &receives
										: &sends;
	int err;

	memset(iterator, 0, sizeof(*iterator));
	err = object_open(what, object->name, object->begin, object->end, &iterator->obj);
	if (err)
		return err;
	err = configure(iterator->obj, selection);
	if (err)
		return fail_errno(what, object->name, err);
	err = share(what, iterator->obj, moved);
	if (!err)
		err = object_load(what, iterator->obj);
	if (err)
		return err;
	err = fill_inodes(iterator->obj, selection);
	if (err)
		return fail_errno(what, object->name, err);
	iterator->link =
		bpf_program__attach_iter(bpf_object__next_program(iterator->obj, NULL), NULL);
	return iterator->link ? EXIT_OK : fail_errno(what, object->name, errno);
}

/* The namespace of an iterator is that of the process that makes it. */
static int make(void *data)
{
	int fd = bpf_iter_create(bpf_link__fd(data));

	return fd < 0 ? -errno : fd;
}

int iterator_walk(const char *what, const struct iterator *iterator, const struct netns *netns,
		  void (*each)(void *data, const void *record), void *data)
{
	int fd = netns_inside(what, netns, make, iterator->link), err;

	if (fd < 0)
		return fd;
	err = records_read(fd, sizeof(struct ccbpf_renice_record), each, data);
	close(fd);
	return err;
}

void iterator_close(struct iterator *iterator)
{
	bpf_link__destroy(iterator->link);
	bpf_object__close(iterator->obj);
}
