// SPDX-License-Identifier: GPL-2.0-only
/* Small files of /proc and /sys: see file.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
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
