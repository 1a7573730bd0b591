// SPDX-License-Identifier: GPL-2.0-only
/* Processes: see process.h. */
#include <stdio.h>
#include <string.h>

#include "sys/process.h"
#include "util/file.h"
#include "util/text.h"

pid_t process_parent(pid_t pid)
{
	char line[512], *end;
	int parent = 0;

	if (read_line(text("/proc/%d/stat", pid), line, sizeof(line)) == 0 &&
	    (end = strrchr(line, ')')))
		sscanf(end + 1, " %*c %d", &parent);
	return parent;
}
