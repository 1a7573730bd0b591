// SPDX-License-Identifier: GPL-2.0-only
/* Small files: see file.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/file.h"

int read_line(const char *path, char *buffer, unsigned int size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return -errno;
	length = read(fd, buffer, size - 1);
	close(fd);
	if (length < 0)
		return -EIO;
	buffer[length] = '\0';
	buffer[strcspn(buffer, "\n")] = '\0';
	return 0;
}

int write_all(int fd, const void *from, size_t size)
{
	const char *data = from;

	while (size) {
		ssize_t done = write(fd, data, size);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			data += done;
			size -= done;
		}
	}
	return 0;
}

int replace_file(const char *path, const char *data, size_t size)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char beside[PATH_MAX];
	int fd, err;

	/* Hidden, and without the end of the name: nobody takes it for a finished file. */
	if (snprintf(beside, sizeof(beside), "%.*s.%s.XXXXXX", (int)(name - path), path, name) >=
	    (int)sizeof(beside))
		return -ENAMETOOLONG;
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = write_all(fd, data, size);
	if (!err && fchmod(fd, 0644))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(beside, path))
		err = -errno;
	if (err)
		unlink(beside);
	return err;
}
