// SPDX-License-Identifier: GPL-2.0-only
/*
 * kill_after N COMMAND...: runs the command and kills it with SIGKILL right
 * before its N-th system call. The count starts with the first bpf(2), flock(2)
 * or mkdir(2): what the dynamic linker does before is of no interest. If N is 0
 * the command runs to its end, and the number of its system calls is the last
 * line on stderr.
 *
 * Exits as the command did; 137 if it was killed here.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#define SYSCALL_STOP (SIGTRAP | 0x80)

static bool counts(pid_t pid)
{
	static bool started;
	struct ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return false;
	started = started || info.entry.nr == SYS_bpf || info.entry.nr == SYS_flock ||
#ifdef SYS_mkdir
		  info.entry.nr == SYS_mkdir ||
#endif
		  info.entry.nr == SYS_mkdirat;
	return started;
}

static pid_t start(char **command)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	execvp(command[0], command);
	perror(command[0]);
	_exit(127);
}

int main(int argc, char **argv)
{
	long at, n = 0;
	int status;
	pid_t pid;

	if (argc < 3)
		return 2;
	at = atol(argv[1]);
	pid = start(argv + 2);
	if (pid < 0 || waitpid(pid, &status, 0) != pid ||
	    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) {
		perror("kill_after");
		return 2;
	}
	for (int pass = 0;;) {
		ptrace(PTRACE_SYSCALL, pid, NULL, (long)pass);
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			break;
		pass = WSTOPSIG(status);
		if (pass == SYSCALL_STOP || pass == SIGTRAP)
			pass = 0;
		if (WSTOPSIG(status) == SYSCALL_STOP && counts(pid) && ++n == at)
			kill(pid, SIGKILL);
	}
	if (!at)
		fprintf(stderr, "%ld\n", n);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
