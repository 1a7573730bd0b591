/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A process of its own that gathers pages: what listens asks it, and so needs no privilege itself, not even to open a pin.
 * All that reaches the reader is one byte for each page.
 *
 *   the listener asks    1 byte: whether the page is to be OpenMetrics
 *   the reader answers   struct reader_answer, then the page, or the sentence that says why there is none
 *
 * The reader ends when the listener has ended; the listener at the next page after the reader has. Signals that end a command are
 * for the listener.
 */
#ifndef CCBPF_READER_H
#define CCBPF_READER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Start it; its pages are by units as metrics_page() has them. `prepare` is called in the reader first: what it keeps of its privileges. Returns the
 * listener's end, or a negative exit code after saying why not.
 */
int reader_start(const char *what, bool units, int (*prepare)(void));

/*
 * Ask for a page, of `*size` bytes, which is to be freed. `*err`: EXIT_OK, or the exit code of a
 * page that could not be gathered; then the text says why. Returns 0; -ECANCELED if a signal ends
 * the command (out/ticker.h), after which nothing may be asked; or another -errno: there is no
 * reader any more.
 */
int reader_ask(int fd, bool openmetrics, char **page, size_t *size, int *err);

#endif
