// SPDX-License-Identifier: GPL-2.0-only
/* A process that gathers pages: see reader.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "metrics/metrics.h"
#include "metrics/reader.h"
#include "out/errors.h"
#include "out/ticker.h"
#include "util/file.h"
#include "util/memory.h"
#include "util/text.h"

struct reader_answer {
	int err; /* exit code */
	size_t size; /* bytes that follow */
};

/* All of it, or -errno: -EPIPE where the other end is gone. */
static int receive_all(int fd, void *to, size_t size)
{
	char *at = to;

	while (size) {
		ssize_t n = recv(fd, at, size, 0);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EPIPE;
		if (n > 0) {
			at += n;
			size -= n;
		}
	}
	return 0;
}

/* One page for one byte. Returns 0, or -errno where nobody listens any more. */
static int answer(const char *what, bool units, int fd)
{
	struct reader_answer answer = { 0 };
	const struct text_block *mark = text_mark();
	bool openmetrics;
	char asked, *page;
	int err = receive_all(fd, &asked, 1);

	if (err)
		return err;
	openmetrics = asked;
	answer.err = metrics_page(what, openmetrics, units, &page, &answer.size);
	if (answer.err) {
		free(page);
		page = must_copy(text("%s\n", fault_said()));
		answer.size = strlen(page);
	}
	err = write_all(fd, &answer, sizeof(answer)) ?: write_all(fd, page, answer.size);
	free(page);
	text_release(mark);
	return err;
}

static int asks_fd;

/* Nobody waits for the page any more, for whose locks this process may still wait for seconds. */
static void on_hang_up(int signal)
{
	struct pollfd asks = { .fd = asks_fd, .events = POLLIN };
	int before = errno;

	(void)signal;
	if (poll(&asks, 1, 0) == 1 && (asks.revents & POLLHUP))
		_exit(EXIT_OK);
	errno = before;
}

/*
 * End with the process that asks, also in the middle of a page. A signal by that process is no way: once
 * it is another user it may send none, and PR_SET_PDEATHSIG neither.
 */
static void end_with_who_asks(int fd)
{
	const struct sigaction action = { .sa_handler = on_hang_up, .sa_flags = SA_RESTART };

	asks_fd = fd;
	sigaction(SIGIO, &action, NULL);
	fcntl(fd, F_SETOWN, getpid());
	fcntl(fd, F_SETFL, O_ASYNC | fcntl(fd, F_GETFL));
}

static __attribute__((noreturn)) void read_until_nobody_asks(const char *what, bool units, int fd,
							     int (*prepare)(void))
{
	static const int not_ours[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	int err;

	for (size_t i = 0; i < sizeof(not_ours) / sizeof(not_ours[0]); i++)
		signal(not_ours[i], SIG_IGN);
	end_with_who_asks(fd);
	err = prepare();
	if (!err && write_all(fd, "", 1)) /* it is ready */
		err = EXIT_FAILED;
	while (!err && !answer(what, units, fd))
		;
	close(fd);
	exit(err);
}

/* Until it has done what it does first. Returns EXIT_OK, or the exit code with which it ended. */
static int wait_until_ready(const char *what, int fd, pid_t pid)
{
	char ready;
	int status;

	if (!receive_all(fd, &ready, 1))
		return EXIT_OK;
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status))
		return WEXITSTATUS(status);
	return FAIL(EXIT_FAILED, .what = what, .on = "the process that reads",
		    .why = "it ended before it was ready");
}

int reader_start(const char *what, bool units, int (*prepare)(void))
{
	int ends[2], err;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -fail_errno(what, "a pair of sockets", errno);
	fflush(NULL); /* or the child would write it again */
	pid = fork();
	if (pid < 0) {
		close(ends[0]);
		close(ends[1]);
		return -fail_errno(what, "a process that reads", errno);
	}
	close(ends[pid ? 1 : 0]);
	if (!pid)
		read_until_nobody_asks(what, units, ends[1], prepare);
	err = wait_until_ready(what, ends[0], pid);
	if (err)
		close(ends[0]);
	return err ? -err : ends[0];
}

int reader_ask(int fd, bool openmetrics, char **page, size_t *size, int *err)
{
	struct reader_answer answer;
	char ask = openmetrics;
	int lost = write_all(fd, &ask, 1);

	/* It may wait for seconds, for a command that changes something; what it sends comes at once. */
	if (!lost && !ticker_wait_to_read(fd))
		return -ECANCELED;
	lost = lost ?: receive_all(fd, &answer, sizeof(answer));
	if (lost)
		return lost;
	*page = must_alloc(answer.size + 1, 1);
	*size = answer.size;
	*err = answer.err;
	lost = receive_all(fd, *page, answer.size);
	if (lost)
		free(*page);
	return lost;
}
