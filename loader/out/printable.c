// SPDX-License-Identifier: GPL-2.0-only
/* Text that is safe to print on a terminal: see printable.h. */
#include <stddef.h>

#include "out/printable.h"

/* Bytes of the UTF-8 character that `s` begins with, or 0 where it is none, or one that
 * a terminal would obey. */
static size_t character(const unsigned char *s)
{
	size_t length = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (length == 1)
		return s[0] >= ' ' && s[0] != 0x7f;
	if (s[0] < 0xc2 || s[0] > 0xf4 || (s[0] == 0xc2 && s[1] < 0xa0))
		return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

char *make_printable(char *string)
{
	for (unsigned char *s = (unsigned char *)string; *s;) {
		size_t length = character(s);

		if (!length)
			*s = '?';
		s += length ?: 1;
	}
	return string;
}
