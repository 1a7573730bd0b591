// SPDX-License-Identifier: GPL-2.0-only
/* Quantities for a person: see human.h. */

#include "out/human.h"
#include "util/text.h"

const char *human_ms(uint64_t us)
{
	return us < 99950 ? text("%.1f", us / 1e3) : text("%.0f", us / 1e3);
}

/* Three digits, `between` and a decimal prefix. */
static const char *decimal(uint64_t number, const char *between)
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
	unsigned int i = 0;
	double value = number;

	for (; value >= 999.5; i++)
		value /= 1000;
	return text("%.*f%s%s",
		    i == 0 || value >= 99.95 ? 0
		    : value < 9.995	     ? 2
					     : 1,
		    value, between, prefixes[i]);
}

const char *human_bps(uint64_t bps)
{
	return decimal(bps, "");
}

const char *human_bytes(uint64_t bytes)
{
	return text("%s%s", decimal(bytes, " "),
		    bytes == 1	   ? "byte"
		    : bytes < 1000 ? "bytes"
				   : "B");
}

const char *human_age(uint64_t ns)
{
	unsigned long long s = ns / 1000000000ULL;

	if (s < 120)
		return text("%llus", s);
	if (s < 6000)
		return text("%llumin", s / 60);
	if (s < 36000)
		return text("%llu.%lluh", s / 3600, s % 3600 / 360);
	if (s < 172800)
		return text("%lluh", s / 3600);
	return text("%llud", s / 86400);
}
