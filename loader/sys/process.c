// SPDX-License-Identifier: GPL-2.0-only
/* Processes: see process.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/process.h"
#include "util/file.h"
#include "util/text.h"

#define SOCKET_LINK "socket:["

/* Not by /proc/PID/stat: a name may have a newline and parentheses, and only here it is escaped. */
pid_t process_parent(pid_t pid)
{
	FILE *status = fopen(text("/proc/%d/status", pid), "re");
	char line[256];
	int parent = 0;

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "PPid: %d", &parent) == 1)
			break;
	if (status)
		fclose(status);
	return parent;
}

int process_sockets(pid_t pid, void (*each)(void *data, pid_t pid, uint64_t inode), void *data)
{
	DIR *dir = opendir(text("/proc/%d/fd", pid));
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		char link[64];
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		if (length <= 0)
			continue;
		link[length] = '\0';
		if (strncmp(link, SOCKET_LINK, strlen(SOCKET_LINK)) == 0)
			each(data, pid, strtoull(link + strlen(SOCKET_LINK), NULL, 10));
	}
	closedir(dir);
	return 0;
}

const char *process_name(pid_t pid)
{
	char name[32] = "";

	read_line(text("/proc/%d/comm", pid), name, sizeof(name));
	return text("%s", name);
}
