// SPDX-License-Identifier: GPL-2.0-only
/* A process that sees which signals were for all: see witness.h. */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sys/witness.h"

#define NAME "signal-witness"
#define ARG_START 48 /* the fields of /proc/PID/stat: proc(5) */
#define ARG_END 49

static pid_t witness;
/* What an earlier witness had, and this process has not taken yet: by bit `signal - 1`. */
static uint64_t kept;

/* Where the words of this process are, which `ps` and `pkill -f` read. NULL: not known. */
static char *words(size_t *size)
{
	char line[1024] = "", *at;
	FILE *file = fopen("/proc/self/stat", "re");
	uintptr_t start = 0, end = 0;

	if (!file)
		return NULL;
	at = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	for (int field = 2; at && field <= ARG_END; field++) {
		if (field == ARG_START)
			start = strtoull(at, NULL, 10);
		if (field == ARG_END)
			end = strtoull(at, NULL, 10);
		at = strchr(at + 1, ' ');
	}
	*size = end - start;
	return start && end > start ? (char *)start : NULL;
}

/* What it has for longer than a second was for this process alone, and is forgotten. */
static __attribute__((noreturn)) void wait_and_forget(void)
{
	const struct timespec none = { 0 };
	struct pollfd signals = { .events = POLLIN };
	sigset_t all;

	sigfillset(&all);
	signals.fd = signalfd(-1, &all, SFD_CLOEXEC);
	for (;;) {
		poll(&signals, 1, -1);
		sleep(1);
		while (sigtimedwait(&all, NULL, &none) > 0)
			;
	}
}

static __attribute__((noreturn)) void watch(pid_t parent)
{
	size_t size;
	char *own = words(&size);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, NAME);
	if (own) {
		memset(own, 0, size);
		snprintf(own, size, NAME);
	}
	close_range(0, ~0U, 0);
	wait_and_forget();
}

void witness_start(void)
{
	pid_t parent = getpid();

	witness = fork();
	if (witness == 0)
		watch(parent);
}

static void end(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

void witness_end(void)
{
	end(witness);
	witness = 0;
}

/* The signals for a process that it has not taken, by bit `signal - 1`. */
static uint64_t pending(pid_t pid)
{
	char path[32], line[256];
	uint64_t found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "ShdPnd:", strlen("ShdPnd:")))
			found = strtoull(line + strlen("ShdPnd:"), NULL, 16);
	if (file)
		fclose(file);
	return found;
}

/*
 * A new one in its place. Returns what the old one had until the new one was there: a fork and a
 * signal for a group exclude each other, so at least one of the two has each signal.
 */
static uint64_t replace(void)
{
	pid_t old = witness;
	uint64_t had;

	witness_start();
	had = pending(old);
	end(old);
	return had;
}

bool witness_saw(int signal, int patience_ms)
{
	uint64_t one = 1ULL << (signal - 1), seen;

	if (witness <= 0)
		return false;
	seen = kept | pending(witness);
	if (!(seen & one) && patience_ms) {
		usleep(patience_ms * 1000);
		seen |= pending(witness);
	}
	if (seen)
		kept = (seen | replace()) & ~one & pending(getpid());
	return seen & one;
}
