// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a ccbpf: each time it enters or leaves a network namespace takes
 * 0.2 s, so that a test can act between two of them.
 */
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#define WAIT_US 200000

int setns(int fd, int type)
{
	int (*real)(int, int) = dlsym(RTLD_NEXT, "setns");

	usleep(WAIT_US);
	return real(fd, type);
}
