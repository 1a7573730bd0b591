// SPDX-License-Identifier: GPL-2.0-only
/* The default controller of this network namespace: see sysdefault.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"
#include "kernel.h"
#include "pins.h"
#include "sysdefault.h"

#include "ccbpf/flow.h"

#define PIN_DEFAULT "default"
#define SYSCTL "net.ipv4.tcp_congestion_control"
#define SYSCTL_PATH "/proc/sys/net/ipv4/tcp_congestion_control"
#define AVAILABLE_PATH "/proc/sys/net/ipv4/tcp_available_congestion_control"

/* The value of the map <root>/default. */
struct record {
	char previous[CCBPF_NAME_LEN];
	__u64 netns; /* inode of the network namespace */
};

static const struct map_shape shape = { BPF_MAP_TYPE_ARRAY, sizeof(__u32),
					sizeof(struct record), 1 };

static __u64 own_netns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
}

const char *sysdefault_now(void)
{
	static char name[64];

	if (read_line(SYSCTL_PATH, name, sizeof(name)))
		*name = '\0';
	return name;
}

bool sysdefault_available(const char *name)
{
	char line[1024], *rest = line;

	if (read_line(AVAILABLE_PATH, line, sizeof(line)))
		return false;
	for (char *word; (word = strsep(&rest, " "));)
		if (strcmp(word, name) == 0)
			return true;
	return false;
}

/* Read the record. Returns 0 or -errno; -ENOENT: nothing is remembered. */
static int read_record(struct record *record)
{
	int err, fd = pin_open_map(pin_path(PIN_DEFAULT, NULL), &shape);
	__u32 zero = 0;

	if (fd < 0)
		return fd;
	err = bpf_map_lookup_elem(fd, &zero, record) ? -errno : 0;
	record->previous[CCBPF_NAME_LEN - 1] = '\0';
	close(fd);
	return err;
}

const char *sysdefault_previous(void)
{
	static struct record record;

	return read_record(&record) == 0 && record.netns == own_netns()
		       ? record.previous
		       : NULL;
}

/* Returns 0 or -errno. */
static int write_sysctl(const char *name)
{
	int fd = open(SYSCTL_PATH, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, name, strlen(name)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* Remember what is the default now, for this namespace. */
static int remember(const char *what, const char *previous)
{
	struct record record = { .netns = own_netns() };
	const char *path = pin_path(PIN_DEFAULT, NULL);
	__u32 zero = 0;
	int err, fd;

	/* Ours, with nothing remembered: the rest of an interrupted ccbpf. */
	if (controller_find(previous))
		previous = sysdefault_available("cubic") ? "cubic" : "reno";
	snprintf(record.previous, sizeof(record.previous), "%s", previous);
	pin_remove(path);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ccbpf_default", shape.key_size,
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

int sysdefault_set(const char *what, const struct controller *c)
{
	struct record record;
	int err = read_record(&record);
	bool known = !err && record.netns == own_netns();

	if (!err && !known)
		note(SYSCTL,
		     "what was the default in another network namespace is forgotten",
		     text("set it there by `sysctl " SYSCTL "=%s`",
			  record.previous));
	/* While the default is one of ours, what it was before them counts. */
	if (!known || !controller_find(sysdefault_now())) {
		err = remember(what, sysdefault_now());
		if (err)
			return err;
	}
	err = write_sysctl(c->name);
	return err ? fail_errno("set", text(SYSCTL "=%s", c->name), err)
		   : EXIT_OK;
}

/*
 * Write the remembered name; where it is not there any more, reno, which every
 * kernel has. Returns what it is now.
 */
static const char *restore(const char *previous)
{
	int err = write_sysctl(previous);

	if (!err)
		return previous;
	note(SYSCTL,
	     text("%s cannot be restored: %s", previous, strerror(-err)),
	     "reno is the default now");
	return write_sysctl("reno") ? NULL : "reno";
}

const char *sysdefault_release(const struct controller *c)
{
	static struct record record;
	bool ours = strcmp(sysdefault_now(), c->name) == 0;
	const char *restored = NULL;

	if (read_record(&record))
		return NULL;
	if (record.netns != own_netns()) {
		note(SYSCTL,
		     text("%s may still be the default of another network namespace",
			  c->name),
		     text("set it there by `sysctl " SYSCTL "=%s`",
			  record.previous));
		return NULL;
	}
	if (ours)
		restored = restore(record.previous);
	if (ours || !controller_find(sysdefault_now()))
		pin_remove(pin_path(PIN_DEFAULT, NULL));
	return restored;
}
