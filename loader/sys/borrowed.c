// SPDX-License-Identifier: GPL-2.0-only
/* A sysctl that is borrowed and given back: see borrowed.h. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "sys/borrowed.h"
#include "sys/device.h"
#include "sys/netns.h"
#include "sys/pins.h"
#include "util/file.h"
#include "util/text.h"

/* The value of the map <root>/<pin>. */
struct record {
	char previous[BORROWED_LEN];
	__u64 netns; /* inode of the network namespace */
};

static const struct map_shape shape = ONE_VALUE(BPF_MAP_TYPE_ARRAY, sizeof(struct record));

int borrowed_now(const struct borrowed *sysctl, char *value, unsigned int size)
{
	int err = read_line(sysctl->path, value, size);

	if (err)
		*value = '\0';
	return err;
}

static int write_value(const struct borrowed *sysctl, const char *value)
{
	int fd = open(sysctl->path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int read_record(const struct borrowed *sysctl, char previous[BORROWED_LEN], uint64_t *netns)
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
	snprintf(previous, BORROWED_LEN, "%.*s", BORROWED_LEN - 1, record.previous);
	*netns = record.netns;
	return 0;
}

void borrowed_look(const struct borrowed *sysctl, struct loan *loan)
{
	*loan = (struct loan){ 0 };
	loan->known = !read_record(sysctl, loan->previous, &loan->netns);
	loan->own = loan->known && loan->netns == device_netns();
	loan->unread = borrowed_now(sysctl, loan->now, sizeof(loan->now));
}

bool borrowed_remains(const struct borrowed *sysctl)
{
	char previous[BORROWED_LEN];
	uint64_t netns;
	int err = read_record(sysctl, previous, &netns);

	return err ? err != -ENOENT && err != -EMEDIUMTYPE : netns == device_netns();
}

static int remember(const char *what, const struct borrowed *sysctl, const char *previous)
{
	struct record record = { .netns = device_netns() };
	const char *path = pin_path(sysctl->pin, NULL);
	__u32 zero = 0;
	int err, fd;

	snprintf(record.previous, sizeof(record.previous), "%s", previous);
	pin_remove(path);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ccbpf_sysctl", shape.key_size, shape.value_size, 1,
			    NULL);
	if (fd < 0)
		return fail_errno(what, path, errno);
	err = bpf_map_update_elem(fd, &zero, &record, BPF_ANY) ? fail_errno(what, path, errno)
							       : EXIT_OK;
	if (!err)
		err = pin_make(what, fd, path);
	close(fd);
	return err;
}

void borrowed_forget(const struct borrowed *sysctl)
{
	pin_remove(pin_path(sysctl->pin, NULL));
}

void borrowed_note_elsewhere(const struct borrowed *sysctl, const struct loan *loan,
			     const char *why)
{
	const char *name = netns_name(loan->netns);

	note(sysctl->name, why,
	     name ? text("`ip netns exec %s sysctl %s=%s` sets it there", name, sysctl->name,
			 loan->previous)
		  : text("set it%s by `sysctl %s=%s`", netns_place(loan->netns), sysctl->name,
			 loan->previous));
}

int borrowed_take(const char *what, const struct borrowed *sysctl, const char *value)
{
	const char *previous;
	struct loan loan;
	bool ours;
	int err;

	borrowed_look(sysctl, &loan);
	if (loan.unread)
		return fail_errno("read", sysctl->name, loan.unread);
	if (loan.known && !loan.own)
		borrowed_note_elsewhere(sysctl, &loan, sysctl->forgotten);
	/* While the value is one of ours, what it was before them counts. */
	ours = sysctl->is_ours(loan.now);
	if (!loan.own || !ours) {
		previous = ours && sysctl->guess ? sysctl->guess() : loan.now;
		err = remember(what, sysctl, previous);
		if (err)
			return err;
	}
	err = write_value(sysctl, value);
	return err ? fail_errno(sysctl->verb ?: what, text("%s=%s", sysctl->name, value), err)
		   : EXIT_OK;
}

static void note_refused(const struct borrowed *sysctl, const char *previous, int err,
			 bool fell_back)
{
	note(sysctl->name, text("%s cannot be restored: %s", previous, strerror(-err)),
	     fell_back ? sysctl->fell_back
		       : text("%sset it by `sysctl %s=%s` where /proc/sys can be written",
			      sysctl->not_back, sysctl->name, previous));
}

/*
 * Write what is remembered, or the fallback. Returns what it is now, or NULL where
 * nothing could be written.
 */
static const char *restore(const struct borrowed *sysctl, struct loan *loan)
{
	int err = write_value(sysctl, loan->previous);
	bool fell_back;

	if (!err)
		return loan->previous;
	fell_back = sysctl->fallback && write_value(sysctl, sysctl->fallback) == 0;
	loan->told = true;
	note_refused(sysctl, loan->previous, err, fell_back);
	return fell_back ? sysctl->fallback : NULL;
}

static void note_unread(const struct borrowed *sysctl, int err)
{
	note(sysctl->name, text("it cannot be read: %s", strerror(-err)),
	     "`ccbpf clean` restores it where /proc/sys can be read");
}

const char *borrowed_give_back(const struct borrowed *sysctl, struct loan *loan, const char *mine,
			       const char *elsewhere)
{
	const char *restored = NULL;
	char now[BORROWED_LEN];

	if (!loan->own || loan->unread) {
		loan->told = true;
		if (loan->own)
			note_unread(sysctl, loan->unread);
		else
			borrowed_note_elsewhere(sysctl, loan, elsewhere);
		return NULL;
	}
	if (strcmp(loan->now, mine) == 0)
		restored = restore(sysctl, loan);
	borrowed_now(sysctl, now, sizeof(now));
	if (restored || !sysctl->is_ours(now))
		borrowed_forget(sysctl);
	return restored;
}
