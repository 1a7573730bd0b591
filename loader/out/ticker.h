/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A loop for live views: timers come through one epoll set, and a signal (INT, TERM,
 * HUP) ends the wait for them. It also ends a write that nobody reads; a second one
 * ends the process.
 */
#ifndef CCBPF_TICKER_H
#define CCBPF_TICKER_H

#include <stdbool.h>
#include <stdint.h>

struct ticker {
	int epoll_fd, timer_fd, end_fd;
};

enum tick {
	TICK_END = 1,
	TICK_TIMER = 2,
	TICK_INPUT = 4
};

/*
 * Tick every `every_ns`, the first time at once, and end after `for_ns` (0:
 * only by a signal). `input_fd` is watched too, unless -1. Returns EXIT_OK, or
 * the exit code after saying why not.
 */
int ticker_open(struct ticker *ticker, const char *what, uint64_t every_ns, uint64_t for_ns,
		int input_fd);

/* Wait. Returns a set of enum tick. */
int ticker_wait(struct ticker *ticker);

/*
 * Within a tick: wait until `fd` can be read, or has an error that reading it returns. Returns false
 * if a signal has ended the loop.
 */
bool ticker_wait_to_read(int fd);

/* Whether a signal ended a write: what is left of the output is thrown away. */
bool ticker_cut_short(void);

void ticker_close(struct ticker *ticker);

/*
 * A live view: call `show` at once and then every `every_ns` until a signal ends
 * it, in place on a terminal, else one below the other. 0 ns: once, as it is. After
 * each call its texts (util/text.h) are freed. Returns EXIT_OK, or what `show` failed with.
 */
int ticker_repeat(const char *what, uint64_t every_ns, int (*show)(void *data), void *data);

#endif
