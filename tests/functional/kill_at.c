// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a ccbpf: SIGKILL just before the KILL_AT-th system call that
 * changes something outside the process, counted from 1. So "killed at any
 * instruction" becomes "killed between any two changes", each of them, every
 * time.
 */
#include <dlfcn.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void step(void)
{
	static int n;
	const char *at = getenv("KILL_AT");

	if (at && ++n == atoi(at))
		kill(getpid(), SIGKILL);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

long syscall(long number, ...)
{
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_bpf &&
	    (a[0] == BPF_OBJ_PIN || a[0] == BPF_LINK_CREATE || a[0] == BPF_LINK_UPDATE ||
	     a[0] == BPF_LINK_DETACH || a[0] == BPF_MAP_UPDATE_ELEM || a[0] == BPF_MAP_DELETE_ELEM))
		step();
	if (number == SYS_clone3)
		step();
	return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int mkdir(const char *path, mode_t mode)
{
	step();
	return REAL(mkdir)(path, mode);
}

int rmdir(const char *path)
{
	step();
	return REAL(rmdir)(path);
}

int unlink(const char *path)
{
	step();
	return REAL(unlink)(path);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	step();
	return REAL(mkdirat)(dir, path, mode);
}

int unlinkat(int dir, const char *path, int flags)
{
	step();
	return REAL(unlinkat)(dir, path, flags);
}

int rename(const char *from, const char *to)
{
	step();
	return REAL(rename)(from, to);
}

ssize_t write(int fd, const void *data, size_t size)
{
	step();
	return REAL(write)(fd, data, size);
}
