// SPDX-License-Identifier: GPL-2.0-only
/* A command as a child of this process: see child.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/child.h"
#include "sys/witness.h"
#include "util/text.h"

static struct sigaction pipe_before, child_before; /* of who called us */
static sigset_t mask_before;
static struct itimerval timers_before[ITIMER_PROF + 1]; /* ITIMER_REAL, _VIRTUAL and _PROF */

/* How the start failed. */
struct trouble {
	int err;
	const char *step; /* of our own memory, which is the child's as well */
};

void child_remember_signals(void)
{
	sigaction(SIGPIPE, NULL, &pipe_before);
}

/* Waiting needs SIGCHLD, and all signals one by one. */
static void take_signals(void)
{
	struct sigaction standard = { .sa_handler = SIG_DFL };
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask_before);
	sigaction(SIGCHLD, &standard, &child_before);
}

static void give_signals_back(void)
{
	sigaction(SIGCHLD, &child_before, NULL);
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/* Timers outlive execve(), but not fork(): those of who called us are the child's. */
static void take_timers(void)
{
	const struct itimerval none = { 0 };

	for (int i = 0; i <= ITIMER_PROF; i++)
		setitimer(i, &none, &timers_before[i]);
}

static void give_timers_back(void)
{
	for (int i = 0; i <= ITIMER_PROF; i++)
		setitimer(i, &timers_before[i], NULL);
}

static __attribute__((noreturn)) void become(char **argv, const struct user *user, int to)
{
	struct trouble trouble = { 0 };

	trouble.err = user_become(user);
	if (trouble.err) {
		trouble.step = "become its user";
	} else {
		sigaction(SIGPIPE, &pipe_before, NULL);
		give_timers_back();
		give_signals_back();
		execvp(argv[0], argv);
		trouble.err = -errno;
	}
	if (write(to, &trouble, sizeof(trouble)) != sizeof(trouble))
		_exit(1);
	_exit(0);
}

bool child_unknown(const char *command)
{
	const char *at = getenv("PATH");

	if (!at || strchr(command, '/'))
		return false;
	do {
		int length = strcspn(at, ":");
		const char *slash = length ? "/" : ""; /* an empty one is the current directory */

		if (!access(text("%.*s%s%s", length, at, slash, command), F_OK) ||
		    (errno != ENOENT && errno != ENOTDIR))
			return false;
		at += length;
	} while (*at++);
	return true;
}

/* fork(), with the child in the cgroup from its first instruction on. */
static pid_t fork_into(int cgroup_fd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = cgroup_fd,
	};

	return syscall(SYS_clone3, &args, sizeof(args));
}

int child_none(char **argv)
{
	fflush(NULL);
	sigaction(SIGPIPE, &pipe_before, NULL);
	execvp(argv[0], argv);
	return -errno;
}

int child_start(char **argv, int cgroup_fd, const struct user *user, pid_t *pid, const char **step)
{
	struct trouble trouble = { 0 };
	int ends[2];
	ssize_t n;

	*step = "make a pipe";
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	fflush(NULL); /* or the child would write it again */
	take_signals();
	take_timers();
	witness_start();
	*step = "fork into its cgroup";
	*pid = fork_into(cgroup_fd);
	if (*pid == 0)
		become(argv, user, ends[1]);
	trouble.err = *pid < 0 ? -errno : 0;
	close(ends[1]);
	if (!trouble.err) {
		do
			n = read(ends[0], &trouble, sizeof(trouble));
		while (n < 0 && errno == EINTR);
		if (n == sizeof(trouble)) {
			*step = trouble.step;
			waitpid(*pid, NULL, 0);
		}
	}
	close(ends[0]);
	if (trouble.err) {
		witness_end();
		give_timers_back();
		give_signals_back();
	}
	return trouble.err;
}

/*
 * Whether the kernel sent this signal to the child as well. It sends the signals of the keyboard, of
 * reading in the background and of a new window size to a whole process group. A terminal that goes is
 * SIGHUP and SIGCONT to the session leader alone; when the session leader ends, both are for the
 * foreground process group (__tty_hangup() and disassociate_ctty(), Linux 6.18). All others are for
 * one process: SIGXCPU, or SIGALRM of a timer that ended before take_timers().
 */
static bool kernel_sends_all(int signal)
{
	switch (signal) {
	case SIGINT:
	case SIGQUIT:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGWINCH:
		return true;
	case SIGHUP:
	case SIGCONT:
		return getsid(0) != getpid();
	default:
		return false;
	}
}

/* Whether the child has got this signal as well, from the kernel or from a process that sent it to all. */
static bool child_has_it(const siginfo_t *info)
{
	bool by_kernel = info->si_code == SI_KERNEL;
	bool for_all = witness_saw(info->si_signo, by_kernel ? 0 : WITNESS_PATIENCE_MS);

	return by_kernel ? kernel_sends_all(info->si_signo) : for_all;
}

/* Returns whether the child has ended. */
static bool child_changed(pid_t pid, int *status)
{
	while (waitpid(pid, status, WNOHANG | WUNTRACED) == pid) {
		if (!WIFSTOPPED(*status))
			return true;
		raise(SIGSTOP); /* our caller sees its job stopped */
	}
	return false;
}

int child_wait(pid_t pid)
{
	siginfo_t info;
	sigset_t all;
	int status = 0;

	sigfillset(&all);
	while (!child_changed(pid, &status)) {
		int signal = sigwaitinfo(&all, &info);

		if (signal > 0 && signal != SIGCHLD && !child_has_it(&info))
			kill(pid, signal);
	}
	witness_end();
	return status;
}

int child_end_like(int status)
{
	struct sigaction standard = { .sa_handler = SIG_DFL };
	sigset_t one;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	prctl(PR_SET_DUMPABLE, 0); /* the child's core is the one that counts */
	sigaction(WTERMSIG(status), &standard, NULL);
	sigemptyset(&one);
	sigaddset(&one, WTERMSIG(status));
	raise(WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	return 128 + WTERMSIG(status);
}
