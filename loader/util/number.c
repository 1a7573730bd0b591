// SPDX-License-Identifier: GPL-2.0-only
/* A decimal number in a text: see number.h. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "util/number.h"

bool number_parse(const char *string, unsigned long least, unsigned long most, unsigned long *out,
		  char **end)
{
	if (!isdigit((unsigned char)*string))
		return false;
	errno = 0;
	*out = strtoul(string, end, 10);
	return !errno && *out >= least && *out <= most;
}
