// SPDX-License-Identifier: GPL-2.0-only
/* A sysctl, and what it was: see sysrecord.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "kernel.h"
#include "pins.h"
#include "qdisc.h"
#include "sysrecord.h"

/* The value of the map <root>/<pin>. */
struct record {
	char previous[SYSRECORD_LEN];
	__u64 netns; /* inode of the network namespace */
};

static const struct map_shape shape = { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
					sizeof(struct record), 1 };

void sysrecord_now(const struct sysrecord *sysctl, char *value,
		   unsigned int size)
{
	if (read_line(sysctl->path, value, size))
		*value = '\0';
}

int sysrecord_write(const struct sysrecord *sysctl, const char *value)
{
	int fd = open(sysctl->path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

int sysrecord_read(const struct sysrecord *sysctl, char previous[SYSRECORD_LEN],
		   bool *own)
{
	int err, fd = pin_open_map(pin_path(sysctl->pin, NULL), &shape);
	struct record record;
	__u32 zero = 0;

	if (fd < 0)
		return fd;
	err = bpf_map_lookup_elem(fd, &zero, &record) ? -errno : 0;
	close(fd);
	if (err)
		return err;
	snprintf(previous, SYSRECORD_LEN, "%.*s", SYSRECORD_LEN - 1,
		 record.previous);
	*own = record.netns == device_netns();
	return 0;
}

int sysrecord_remember(const char *what, const struct sysrecord *sysctl,
		       const char *previous)
{
	struct record record = { .netns = device_netns() };
	const char *path = pin_path(sysctl->pin, NULL);
	__u32 zero = 0;
	int err, fd;

	snprintf(record.previous, sizeof(record.previous), "%s", previous);
	pin_remove(path);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ccbpf_sysctl", shape.key_size,
			    shape.value_size, 1, NULL);
	if (fd < 0)
		return fail_errno(what, path, errno);
	err = bpf_map_update_elem(fd, &zero, &record, BPF_ANY)
		      ? fail_errno(what, path, errno)
		      : EXIT_OK;
	if (!err)
		err = pin_make(what, fd, path);
	close(fd);
	return err;
}

void sysrecord_forget(const struct sysrecord *sysctl)
{
	pin_remove(pin_path(sysctl->pin, NULL));
}
