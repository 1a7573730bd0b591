// SPDX-License-Identifier: GPL-2.0-only
/* handover: gives a running connection of another process a new controller. */
#include "traffic.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_BYTES 512 /* a line of /proc/net/tcp is 150 */

/* The inode of the established socket with that local port; 0: none. */
static unsigned long inode_in(const char *table, uint16_t port)
{
	unsigned long inode = 0;
	char line[LINE_BYTES];
	FILE *file = fopen(table, "r");

	while (file && !inode && fgets(line, sizeof(line), file)) {
		unsigned int local, state;
		unsigned long found;

		if (sscanf(line, " %*[^:]: %*[0-9A-F]:%x %*s %x %*s %*s %*s %*s %*s %lu", &local,
			   &state, &found) == 3 &&
		    local == port && state == TCP_ESTABLISHED)
			inode = found;
	}
	if (file)
		fclose(file);
	return inode;
}

/* The descriptor of process `pid` that is this socket; -1: none. */
static int descriptor_of(const char *pid, unsigned long inode)
{
	char path[PATH_MAX], wanted[64], target[64];
	struct dirent *entry;
	int found = -1;
	DIR *files;

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	files = opendir(path);
	while (files && found < 0 && (entry = readdir(files))) {
		ssize_t length =
			readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1);

		if (length <= 0)
			continue;
		target[length] = 0;
		if (!strcmp(target, wanted))
			found = atoi(entry->d_name);
	}
	if (files)
		closedir(files);
	return found;
}

/* A descriptor of ours for that socket; it belongs to the first process found. */
static int take(unsigned long inode, uint16_t port)
{
	struct dirent *entry;
	DIR *all = opendir("/proc");
	int theirs = -1, ours = -1;
	long process = 0;

	while (all && theirs < 0 && (entry = readdir(all))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		theirs = descriptor_of(entry->d_name, inode);
		process = atol(entry->d_name);
	}
	if (all)
		closedir(all);
	if (theirs < 0)
		fail("port %u: no process here has its socket; run it as the user of that process, or as root",
		     port);
	ours = (int)syscall(SYS_pidfd_open, process, 0);
	if (ours >= 0)
		ours = (int)syscall(SYS_pidfd_getfd, ours, theirs, 0);
	if (ours < 0)
		fail("port %u: the socket of process %ld: %s; it takes Linux 5.6 and the right to trace that process",
		     port, process, strerror(errno));
	return ours;
}

int run_handover(const struct command *self, int argc, char **argv)
{
	const char *positional[2];
	unsigned long inode;
	uint16_t port;

	options_parse(self, NULL, 0, argc, argv, positional, 2);
	port = port_parse(positional[0]);
	inode = inode_in("/proc/net/tcp", port);
	if (!inode)
		inode = inode_in("/proc/net/tcp6", port);
	if (!inode)
		fail("port %u: no established connection has it as its local port in this network namespace",
		     port);
	socket_controller(take(inode, port), positional[1]);
	printf("{\"changed_ns\": %" PRIu64 "}\n", now_ns());
	return 0;
}
