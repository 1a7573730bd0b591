// SPDX-License-Identifier: GPL-2.0-only
/* A loop for live views: see ticker.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "out/errors.h"
#include "out/output.h"
#include "out/ticker.h"
#include "util/text.h"

#define NS_PER_S 1000000000ULL

static int make_timer(uint64_t first_ns, uint64_t every_ns)
{
	struct itimerspec spec = {
		.it_value = { first_ns / NS_PER_S, first_ns % NS_PER_S },
		.it_interval = { every_ns / NS_PER_S, every_ns % NS_PER_S },
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0)
		timerfd_settime(fd, 0, &spec, NULL);
	return fd;
}

static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t ended;

static void on_end(int signal)
{
	(void)signal;
	ended = 1;
}

/* Once each: the second has its default action. HUP stays ignored under nohup. */
static void catch_ends(void)
{
	struct sigaction action = { .sa_handler = on_end, .sa_flags = SA_RESETHAND }, before;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		sigaction(ends[i], NULL, &before);
		if (ends[i] != SIGHUP || before.sa_handler != SIG_IGN)
			sigaction(ends[i], &action, NULL);
	}
}

static void block_ends(sigset_t *before)
{
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaddset(&signals, ends[i]);
	sigprocmask(SIG_BLOCK, &signals, before);
}

/* As epoll_wait(), but 0 if a signal has come, also just before it. */
static int wait_or_end(int epoll_fd, struct epoll_event *events, int n)
{
	sigset_t before;

	block_ends(&before);
	n = ended ? 0 : epoll_pwait(epoll_fd, events, n, -1, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return n;
}

static int watch(struct ticker *ticker, int fd, uint32_t tick)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = tick };

	return fd < 0 ? -1 : epoll_ctl(ticker->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int ticker_open(struct ticker *ticker, const char *what, uint64_t every_ns, uint64_t for_ns,
		int input_fd)
{
	catch_ends();
	ticker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ticker->timer_fd = make_timer(1, every_ns);
	ticker->end_fd = make_timer(for_ns, 0); /* 0 leaves it off */
	if (watch(ticker, ticker->timer_fd, TICK_TIMER) ||
	    watch(ticker, ticker->end_fd, TICK_END) ||
	    (input_fd >= 0 && watch(ticker, input_fd, TICK_INPUT))) {
		int err = fail_errno(what, "timers", errno);

		ticker_close(ticker);
		return err;
	}
	return EXIT_OK;
}

int ticker_wait(struct ticker *ticker)
{
	struct epoll_event events[4];
	int n = wait_or_end(ticker->epoll_fd, events, 4);
	int ticks = ended ? TICK_END : 0;
	uint64_t expirations;

	for (int i = 0; i < n; i++)
		ticks |= events[i].data.u32;
	if ((ticks & TICK_TIMER) && read(ticker->timer_fd, &expirations, sizeof(expirations)) < 0)
		ticks &= ~TICK_TIMER;
	return ticks;
}

bool ticker_wait_to_read(int fd)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };
	sigset_t before;

	block_ends(&before);
	while (!ended && ppoll(&wanted, 1, NULL, &before) < 0 && errno == EINTR)
		;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return !ended;
}

bool ticker_cut_short(void)
{
	return ended && ferror(stdout);
}

void ticker_close(struct ticker *ticker)
{
	close(ticker->epoll_fd);
	close(ticker->timer_fd);
	close(ticker->end_fd);
}

int ticker_repeat(const char *what, uint64_t every_ns, int (*show)(void *data), void *data)
{
	bool in_place = !output.json && isatty(STDOUT_FILENO);
	struct ticker ticker;
	int err;

	if (!every_ns)
		return show(data);
	err = ticker_open(&ticker, what, every_ns, 0, -1);
	if (err)
		return err;
	while (!err) {
		const struct text_block *mark = text_mark();
		int ticks = ticker_wait(&ticker);

		if (ticks & TICK_END)
			break;
		if (!(ticks & TICK_TIMER))
			continue;
		if (in_place)
			fputs("\033[H\033[2J", stdout); /* home, clear */
		err = show(data);
		if (ticker_cut_short())
			output_discard();
		else if (!err)
			err = output_finish();
		text_release(mark);
	}
	ticker_close(&ticker);
	return err;
}
