// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a ccbpf: every bpf(2) with the command $REFUSE fails with
 * errno $REFUSE_WITH, from the $REFUSE_AT-th on (counted from 1).
 */
#include <errno.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long number_in(const char *name, long otherwise)
{
	const char *value = getenv(name);

	return value ? atol(value) : otherwise;
}

long syscall(long number, ...)
{
	long (*real)(long, ...) = dlsym(RTLD_NEXT, "syscall"), a[6];
	static int n;
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_bpf && a[0] == number_in("REFUSE", -1) &&
	    ++n >= number_in("REFUSE_AT", 1)) {
		errno = number_in("REFUSE_WITH", EPERM);
		return -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
