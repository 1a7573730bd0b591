// SPDX-License-Identifier: GPL-2.0-only
/* What the file of `ccbpf apply` has: see applied.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <unistd.h>

#include "config/applied.h"
#include "out/errors.h"
#include "sys/pins.h"

static const struct map_shape shape = ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct applied));

static const char *path(void)
{
	return pin_path(PINS_APPLIED, NULL);
}

int applied_read(const char *what, struct applied *out)
{
	int fd = pin_open_map(path(), &shape), err;
	uint32_t zero = 0;

	*out = (struct applied){ 0 };
	if (fd == -ENOENT)
		return EXIT_OK;
	if (fd < 0)
		return pin_unusable(what, path(), fd);
	err = bpf_map_lookup_elem(fd, &zero, out) ? fail_errno(what, path(), errno) : EXIT_OK;
	close(fd);
	return err;
}

/* The map that is pinned, or a new one that is not. Returns its descriptor or -errno. */
static int open_or_make(bool *made)
{
	int fd = pin_open_map(path(), &shape);

	*made = fd == -ENOENT;
	if (!*made)
		return fd;
	fd = bpf_map_create(shape.type, "ccbpf_applied", shape.key_size, shape.value_size,
			    shape.max_entries, NULL);
	return fd < 0 ? -errno : fd;
}

int applied_write(const char *what, const struct applied *applied)
{
	uint32_t zero = 0;
	int fd, err;
	bool made;

	if (!applied->controllers && !applied->default_kind && !applied->ecn) {
		err = pin_remove(path());
		return err ? fail_errno(what, path(), err) : EXIT_OK;
	}
	fd = open_or_make(&made);
	if (fd < 0)
		return fail_errno(what, path(), fd);
	err = bpf_map_update_elem(fd, &zero, applied, BPF_ANY) ? fail_errno(what, path(), errno)
							       : EXIT_OK;
	if (!err && made)
		err = pin_make(what, fd, path());
	close(fd);
	return err;
}
