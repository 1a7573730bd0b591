// SPDX-License-Identifier: GPL-2.0-only
/* The clock of the programs: see clock.h. */
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "util/clock.h"

#define NS_PER_S 1000000000LL

/* How far CLOCK_MONOTONIC is ahead of the host's in this time namespace. */
static int64_t namespace_offset_ns(void)
{
	FILE *offsets = fopen("/proc/self/timens_offsets", "re");
	long long s = 0, ns = 0;
	char line[128];

	while (offsets && fgets(line, sizeof(line), offsets) &&
	       sscanf(line, "monotonic %lld %lld", &s, &ns) != 2)
		s = ns = 0;
	if (offsets)
		fclose(offsets);
	return s * NS_PER_S + ns;
}

uint64_t monotonic_ns(void)
{
	static int64_t offset_ns;
	static bool known;
	struct timespec now;

	if (!known)
		offset_ns = namespace_offset_ns();
	known = true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec - offset_ns;
}

uint64_t age_ns(uint64_t since_ns)
{
	uint64_t now_ns = monotonic_ns();

	return now_ns > since_ns ? now_ns - since_ns : 0;
}
