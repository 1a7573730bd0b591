// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf plot FILE… [--output PICTURE]: a picture of what `ccbpf flows --record` has written, and
 * of the events of `ccbpf -j trace`, where they are given as well. plot.py, which this file
 * contains, draws it: python3 and matplotlib are needed for this command alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "util/memory.h"
#include "util/text.h"

#define WHAT "plot"
#define NO_MATPLOTLIB 3 /* plot.py's exit code */
#define NO_PYTHON 127
#define WORDS 4096 /* bytes of what it says that are read */

enum own_option {
	OWN_OUTPUT,
};

extern const char ccbpf_plot_py[], ccbpf_plot_py_end[];

__asm__(".section .rodata\n"
	".global ccbpf_plot_py, ccbpf_plot_py_end\n"
	"ccbpf_plot_py:\n"
	".incbin \"loader/cmd/plot.py\"\n"
	"ccbpf_plot_py_end:\n"
	".byte 0\n"
	".previous\n");

/* A file in memory with plot.py. Returns it, or -errno. */
static int script(void)
{
	size_t size = ccbpf_plot_py_end - ccbpf_plot_py;
	int fd = memfd_create("plot.py", 0);

	if (fd < 0)
		return -errno;
	if (write(fd, ccbpf_plot_py, size) == (ssize_t)size)
		return fd;
	close(fd);
	return -EIO;
}

/* The last line of what is read until its end; what is beyond WORDS bytes does not count. */
static const char *last_line(int fd)
{
	char words[WORDS + 1], *line;
	size_t n = 0;
	ssize_t got;

	while (n < WORDS && (got = read(fd, words + n, WORDS - n)) != 0) {
		if (got < 0 && errno != EINTR)
			break;
		n += got > 0 ? got : 0;
	}
	words[n] = '\0';
	while (n && words[n - 1] == '\n')
		words[--n] = '\0';
	line = strrchr(words, '\n');
	return text("%s", line ? line + 1 : words);
}

/*
 * Run it: its exit code or -errno, and its last words. -I: nothing of the environment or of the
 * working directory becomes code.
 */
static int run(const struct request *request, const char *picture, int fd, const char **words)
{
	char **argv = must_alloc(request->n_args + 5, sizeof(*argv)), **at = argv;
	int status, ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	*at++ = (char *)"python3";
	*at++ = (char *)"-I";
	*at++ = (char *)text("/proc/self/fd/%d", fd);
	*at++ = (char *)picture;
	memcpy(at, request->args, request->n_args * sizeof(*at));
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		execvp(argv[0], argv);
		_exit(NO_PYTHON);
	}
	free(argv);
	close(ends[1]);
	*words = pid < 0 ? "" : last_line(ends[0]);
	close(ends[0]);
	if (pid < 0)
		return -EAGAIN;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

static int report(const char *picture, int ended, const char *words)
{
	if (ended < 0)
		return fail_errno(WHAT, "python3", ended);
	if (ended == NO_PYTHON)
		return FAIL(EXIT_FAILED, .what = WHAT, .on = picture, .why = "there is no python3",
			    .remedy = "install it (Debian: apt install python3-matplotlib)");
	if (ended == NO_MATPLOTLIB)
		return FAIL(
			EXIT_FAILED, .what = WHAT, .on = picture,
			.why = "python3 finds no matplotlib (a user's own packages are not read)",
			.remedy = "install it (Debian: apt install python3-matplotlib)");
	if (ended)
		return FAIL(EXIT_FAILED, .what = WHAT, .on = NULL,
			    .why = *words ? words : "python3 ended without a word");
	if (!output.json)
		output_line("%s", picture);
	return EXIT_OK;
}

static int plot(const struct request *request)
{
	const char *picture = request->own[OWN_OUTPUT], *words = "";
	int fd, ended;

	if (!request->n_args)
		return FAIL(EXIT_USAGE, .what = WHAT, .why = "no file is named",
			    .remedy = "record one: `ccbpf flows --record FILE`");
	picture = picture ?: text("%s.svg", request->args[0]);
	fd = script();
	if (fd < 0)
		return fail_errno(WHAT, "plot.py", fd);
	ended = run(request, picture, fd, &words);
	close(fd);
	return report(picture, ended, words);
}

static const struct argp_option options[] = {
	{ "output", OPTION_OWN + OWN_OUTPUT, "PICTURE", 0,
	  "an .svg, .png or .pdf; by default FILE.svg", 0 },
	{ 0 },
};

const struct command cmd_plot = {
	.name = "plot",
	.args = "FILE... [--output PICTURE]",
	.text = "Draw what `flows --record` has written",
	.more = "Rate, window and queueing delay of the flows over time, with losses, marks and early indications. "
		"Another FILE may be the output of `ccbpf -j trace` in the same time: its events are exact. Needs python3 "
		"with matplotlib.",
	.options = options,
	.run = plot,
};
