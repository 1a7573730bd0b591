// SPDX-License-Identifier: GPL-2.0-only
/*
 * A request each period for a program that reads them from its stdin (tc -batch -), without the forks of a shell loop,
 * which cost more of the guest's processor than a flow of 10 Mbit/s.
 *
 *	tick PERIOD_MS STAMPS LINE	LINE to stdout, the time (s since boot) to the file STAMPS; until it is ended
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_MS 1000000LL
#define NS_PER_S 1000000000LL

int main(int argc, char **argv)
{
	long long period_ns = argc == 4 ? atoll(argv[1]) * NS_PER_MS : 0, next_ns;
	FILE *stamps = period_ns > 0 ? fopen(argv[2], "w") : NULL;
	struct timespec now;

	if (!stamps) {
		fprintf(stderr, "usage: tick PERIOD_MS STAMPS LINE\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stamps, NULL, _IOLBF, 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	next_ns = now.tv_sec * NS_PER_S + now.tv_nsec;
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now); /* a guest never sleeps: since boot */
		fprintf(stamps, "%lld.%06ld\n", (long long)now.tv_sec, now.tv_nsec / 1000);
		if (puts(argv[3]) < 0)
			return 0; /* the reader left */
		next_ns += period_ns;
		now = (struct timespec){ .tv_sec = next_ns / NS_PER_S,
					 .tv_nsec = next_ns % NS_PER_S };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &now, NULL);
	}
}
