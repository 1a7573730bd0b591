// SPDX-License-Identifier: GPL-2.0-only
/* The bytes of the file of `ccbpf apply`: see config.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "out/errors.h"
#include "util/memory.h"
#include "util/text.h"

static int refuse(const char *what, const char *why, const char *remedy)
{
	return FAIL(EXIT_FAILED, .what = what, .on = "it", .why = why, .remedy = remedy);
}

/* Whoever may write the file decides what ccbpf does with its privileges. */
static int check(const char *what, const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return refuse(what, "it is not a regular file", "name a file");
	if ((st->st_uid && st->st_uid != geteuid()) || st->st_mode & (S_IWGRP | S_IWOTH))
		return refuse(what, "others than root may write it",
			      text("`chown root %s` and `chmod go-w %s`", path, path));
	if (st->st_size > CONFIG_BYTES_MOST)
		return refuse(what,
			      text("it has %lld bytes, more than %d", (long long)st->st_size,
				   CONFIG_BYTES_MOST),
			      "give larger prefixes, or fewer rules");
	return EXIT_OK;
}

/* At most `most` bytes. Returns how many, or -errno. */
static ssize_t read_all(int fd, char *bytes, size_t most)
{
	size_t length = 0;
	ssize_t n = 1;

	while (n > 0 && length < most) {
		n = read(fd, bytes + length, most - length);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n < 0)
			n = 1;
		else
			length += n;
	}
	return length;
}

static int open_file(const char *what, const char *path, int *fd)
{
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*fd >= 0)
		return EXIT_OK;
	if (errno == ENOENT)
		return refuse(
			what, "there is no such file",
			"write it, or name another one: packaging/ccbpf.toml of the sources, which is installed as " CONFIG_PATH
			", is an example");
	return fail_file(what, "it", errno, "name another file");
}

int config_read(const char *what, const char *path, struct config *out)
{
	char *bytes = NULL;
	ssize_t length;
	struct stat st;
	int err, fd;

	*out = (struct config){ .path = path };
	fault_place(path, 0);
	err = open_file(what, path, &fd);
	if (err)
		return err;
	if (fstat(fd, &st))
		err = fail_errno(what, "it", errno);
	if (!err)
		err = check(what, path, &st);
	if (!err) {
		bytes = must_alloc(1, st.st_size + 1);
		length = read_all(fd, bytes, st.st_size);
		err = length < 0 ? fail_errno(what, "it", length)
				 : config_parse(what, bytes, length, out);
	}
	close(fd);
	free(bytes);
	return err;
}
