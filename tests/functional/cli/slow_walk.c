// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a ccbpf: each directory takes it 50 ms to open, so that a hierarchy of a hundred
 * cgroups is as slow as one of many thousands.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#define WAIT_US 50000

DIR *fdopendir(int fd)
{
	DIR *(*real)(int) = dlsym(RTLD_NEXT, "fdopendir");

	usleep(WAIT_US);
	return real(fd);
}
