// SPDX-License-Identifier: GPL-2.0-only
/* Output: see output.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "out/errors.h"
#include "out/output.h"
#include "out/printable.h"
#include "util/memory.h"

struct output_options output;

const char *output_style(FILE *to, enum style style)
{
	static const char *const codes[] = { "\033[0m", "\033[1m", "\033[32m", "\033[31m",
					     "\033[1;31m" };
	const char *no_color = getenv("NO_COLOR");

	if ((no_color && *no_color) || !isatty(fileno(to)))
		return "";
	return codes[style];
}

void output_line(const char *format, ...)
{
	char *line = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&line, format, args) < 0)
		out_of_memory();
	va_end(args);
	puts(make_printable(line));
	free(line);
}

int output_log(FILE *to, const char *format, va_list args)
{
	char *all = NULL, *rest, *line;
	int bytes = vasprintf(&all, format, args);

	if (bytes < 0)
		out_of_memory();
	for (rest = all; (line = strsep(&rest, "\n"));)
		fprintf(to, "%s%s", make_printable(line), rest ? "\n" : "");
	free(all);
	return bytes;
}

void output_discard(void)
{
	__fpurge(stdout);
	clearerr(stdout);
}

int output_finish(void)
{
	static int said;
	int failed = ferror(stdout);

	errno = failed ? EIO : 0;
	if (failed)
		putchar('\n'); /* its reason is gone: the next one has it */
	if (fflush(stdout) && errno == EINTR) { /* see out/ticker.h */
		output_discard();
		return EXIT_OK;
	}
	if ((!ferror(stdout) && !failed) || said++)
		return said ? EXIT_FAILED : EXIT_OK;
	return FAIL(EXIT_FAILED, .what = "write", .on = "the output", .why = strerror(errno),
		    .remedy = "give it a place that can be written");
}
