// SPDX-License-Identifier: GPL-2.0-only
/* Processes: see process.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/process.h"
#include "util/file.h"
#include "util/memory.h"
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

static void add_holder(void *data, pid_t pid, uint64_t inode)
{
	struct holders *holders = data;

	/* Doubled whenever its number is a power of two. */
	if (!(holders->n & (holders->n - 1)))
		holders->all =
			must_grow(holders->all, (2 * holders->n + 1) * sizeof(*holders->all));
	holders->all[holders->n++] = (struct holder){ inode, pid };
}

static int by_inode(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return x->pid - y->pid;
}

struct holders holders_read(void)
{
	struct holders holders = { 0 };
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	size_t kept = 0;

	while (dir && (entry = readdir(dir))) {
		const struct text_block *mark = text_mark();

		if (isdigit((unsigned char)*entry->d_name))
			process_sockets(atoi(entry->d_name), add_holder, &holders);
		text_release(mark);
	}
	if (dir)
		closedir(dir);
	if (!holders.n)
		return holders;
	qsort(holders.all, holders.n, sizeof(*holders.all), by_inode);
	for (size_t i = 1; i < holders.n; i++) /* a process may hold one several times */
		if (by_inode(&holders.all[kept], &holders.all[i]))
			holders.all[++kept] = holders.all[i];
	holders.n = kept + 1;
	return holders;
}

void holders_free(struct holders *holders)
{
	free(holders->all);
	*holders = (struct holders){ 0 };
}

const struct holder *holders_of(const struct holders *holders, uint64_t inode, size_t *n)
{
	size_t low = 0, high = holders->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (holders->all[middle].inode < inode)
			low = middle + 1;
		else
			high = middle;
	}
	*n = 0;
	for (size_t i = low; i < holders->n && holders->all[i].inode == inode; i++)
		(*n)++;
	return *n && inode ? &holders->all[low] : NULL;
}

const char *process_name(pid_t pid)
{
	char name[32] = "";

	read_line(text("/proc/%d/comm", pid), name, sizeof(name));
	return text("%s", name);
}
