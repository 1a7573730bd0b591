// SPDX-License-Identifier: GPL-2.0-only
/* A process that sees which signals were for all: see witness.h. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/witness.h"

#define NAME "signal-witness"
#define ARG_START 48 /* the fields of /proc/PID/stat: proc(5) */
#define ARG_END 49

static pid_t witness;
static uint64_t
	kept; /* what earlier witnesses had, by bit `signal - 1`, and nobody has asked for yet */

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
	for (;;)
		pause();
}

void witness_start(void)
{
	pid_t parent = getpid();

	witness = fork();
	if (witness == 0)
		watch(parent);
}

void witness_end(void)
{
	if (witness <= 0)
		return;
	kill(witness, SIGKILL);
	waitpid(witness, NULL, 0);
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
	kept = seen & ~one;
	if (seen) {
		witness_end();
		witness_start();
	}
	return seen & one;
}
