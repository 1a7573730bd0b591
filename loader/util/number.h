/* SPDX-License-Identifier: GPL-2.0-only */
/* A decimal number in a text. */
#ifndef CCBPF_NUMBER_H
#define CCBPF_NUMBER_H

#include <stdbool.h>

/* From `least` to `most`, digits only; it ends where `*end` is put. */
bool number_parse(const char *string, unsigned long least, unsigned long most, unsigned long *out,
		  char **end);

#endif
