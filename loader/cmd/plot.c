// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf plot FILE… [--output PICTURE]: a picture of what `ccbpf flows --record` has written, and
 * of the events of `ccbpf -j trace`, where they are given as well. `ccbpf trace --plot` draws by the
 * same: see plot.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/plot.h"
#include "commands.h"
#include "out/errors.h"
#include "out/output.h"
#include "util/memory.h"
#include "util/text.h"

#define WHAT "plot"
#define NO_MATPLOTLIB 3 /* plot.py's exit code */
#define NO_PYTHON 127
#define WORDS 4096 /* bytes of what it says that are read */
#define PACKAGE "install the package ccbpf-tools (from the source: `make install`)"

enum own_option {
	OWN_OUTPUT,
};

/* Where plot.py is, a text(); NULL: it is not installed. */
static const char *script(void)
{
	static const char *const places[] = { "../share/ccbpf/plot.py", "plot.py" };
	char command[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", command, sizeof(command) - 1);
	char *end;

	command[n < 0 ? 0 : n] = '\0';
	end = strrchr(command, '/');
	if (!end)
		return NULL;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *path = text("%.*s/%s", (int)(end - command), command, places[i]);

		if (!access(path, R_OK))
			return path;
	}
	return NULL;
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
static int run(char **argv, const char **words)
{
	int status, ends[2];
	pid_t pid;

	*words = "";
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		execvp(argv[0], argv);
		_exit(NO_PYTHON);
	}
	close(ends[1]);
	if (pid > 0)
		*words = last_line(ends[0]);
	close(ends[0]);
	if (pid < 0)
		return -EAGAIN;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

static int report(const char *what, const char *tool, const char *picture, int ended,
		  const char *words)
{
	if (ended < 0)
		return fail_errno(what, "python3", ended);
	if (ended == NO_PYTHON)
		return FAIL(EXIT_FAILED, .what = what, .on = picture, .why = "there is no python3",
			    .remedy = PACKAGE);
	if (ended == NO_MATPLOTLIB)
		return FAIL(
			EXIT_FAILED, .what = what, .on = picture,
			.why = "python3 finds no matplotlib (a user's own packages are not read)",
			.remedy = "install it (Debian, Fedora: python3-matplotlib)");
	if (ended)
		return FAIL(EXIT_FAILED, .what = what, .on = NULL,
			    .why = *words ? words : "python3 failed and printed nothing",
			    .remedy = *words ? NULL
					     : text("run `python3 -I %s %s FILE` to see why", tool,
						    picture));
	return EXIT_OK;
}

int plot_draw(const char *what, const char *picture, const char *const *files, unsigned int n)
{
	const char *tool = script(), *words;
	char **argv, **at;
	int ended;

	if (!tool)
		return FAIL(EXIT_FAILED, .what = what, .on = picture,
			    .why = "the tool that draws it is not installed", .remedy = PACKAGE);
	argv = at = must_alloc(n + 5, sizeof(*argv)); /* the last one stays NULL */
	*at++ = (char *)"python3";
	*at++ = (char *)"-I";
	*at++ = (char *)tool;
	*at++ = (char *)picture;
	for (unsigned int i = 0; i < n; i++)
		*at++ = (char *)files[i];
	ended = run(argv, &words);
	free(argv);
	return report(what, tool, picture, ended, words);
}

static int plot(const struct request *request)
{
	const char *picture = request->own[OWN_OUTPUT];
	int err;

	if (!request->n_args)
		return FAIL(EXIT_USAGE, .what = WHAT, .why = "no file is named",
			    .remedy = "record one: `ccbpf flows --record FILE`");
	picture = picture ?: text("%s.svg", request->args[0]);
	err = plot_draw(WHAT, picture, (const char *const *)request->args, request->n_args);
	if (!err && !output.json)
		output_line("%s", picture);
	return err;
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
		"Another FILE may be the output of `ccbpf -j trace` in the same time: its events are exact. `ccbpf trace --plot` "
		"does both at once. Needs the package ccbpf-tools (python3 with matplotlib).",
	.options = options,
	.run = plot,
};
