/* SPDX-License-Identifier: GPL-2.0-only */
/* Text in buffers. */
#ifndef CCBPF_TEXT_H
#define CCBPF_TEXT_H

#define TEXT_MOST 1024 /* bytes of a text with its NUL; the rest is cut off */

/*
 * Format a text. It lives until main() ends, or until a mark that was set before it is
 * released. It may be shortened in place.
 */
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A loop without an end sets a mark at the beginning of each round and releases it at
 * the end: the texts of the round are freed. What outlives the round is copied. Marks
 * may be nested.
 */
const struct text_block *text_mark(void);
void text_release(const struct text_block *mark); /* NULL: all texts */

/*
 * Format behind what is in a buffer of `size` bytes, putting `separator`
 * between if it was not empty.
 */
void append(char *buffer, unsigned int size, const char *separator, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
