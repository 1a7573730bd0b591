// SPDX-License-Identifier: GPL-2.0-only
/* The records of an iterator: see records.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "sys/records.h"
#include "util/memory.h"

#define RECORDS 512 /* of one read(2): more than the kernel's buffer holds */
#define AGAIN_MOST 1000 /* EAGAIN comes after a million sockets without a record */

int records_read(int fd, size_t size, void (*each)(void *data, const void *record), void *data)
{
	char *records = must_alloc(RECORDS, size);
	int again = 0, err = 0;

	for (;;) {
		ssize_t bytes = read(fd, records, RECORDS * size);

		if (bytes < 0 && (errno == EINTR || (errno == EAGAIN && again++ < AGAIN_MOST)))
			continue;
		if (bytes < 0)
			err = -errno;
		if (bytes <= 0)
			break;
		for (size_t i = 0; i < bytes / size; i++)
			each(data, records + i * size);
	}
	free(records);
	return err;
}
