// SPDX-License-Identifier: GPL-2.0-only
/* Errors and notes: see errors.h. */
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "kernel.h"
#include "output.h"

const char *text(const char *format, ...)
{
	static char buffers[16][512];
	static unsigned int turn;
	char *buffer = buffers[turn++ % 16];
	va_list args;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffers[0]), format, args);
	va_end(args);
	return buffer;
}

void append(char *buffer, unsigned int size, const char *separator,
	    const char *format, ...)
{
	unsigned int used = strlen(buffer);
	va_list args;

	if (used)
		used += snprintf(buffer + used, size - used, "%s", separator);
	if (used >= size)
		return;
	va_start(args, format);
	vsnprintf(buffer + used, size - used, format, args);
	va_end(args);
}

static void say_json(const char *kind, const struct fault *fault)
{
	struct json_object *doc = json_object_new_object();
	struct json_object *body = json_object_new_object();

	if (fault->what)
		json_object_object_add(body, "what", json_text(fault->what));
	json_object_object_add(body, "on", json_text(fault->on));
	json_object_object_add(body, "why", json_text(fault->why));
	json_object_object_add(body, "remedy", json_text(fault->remedy));
	if (fault->what)
		add_number(body, "exit", fault->exit);
	json_object_object_add(doc, kind, body);
	output_json_to(stderr, doc);
}

/* For a terminal: see make_printable(). */
static const char *printable(const char *string)
{
	return string ? make_printable((char *)text("%s", string)) : "";
}

int fail(const struct fault *fault)
{
	if (output.json) {
		say_json("error", fault);
		return fault->exit;
	}
	fprintf(stderr, "%sccbpf:%s cannot %s%s%s: %s%s%s\n",
		output_style(stderr, STYLE_ERROR),
		output_style(stderr, STYLE_NONE), fault->what,
		fault->on ? " " : "", printable(fault->on),
		printable(fault->why), fault->remedy ? "; " : "",
		printable(fault->remedy));
	return fault->exit;
}

void note(const char *on, const char *why, const char *remedy)
{
	struct fault fault = { .on = on, .why = why, .remedy = remedy };

	if (output.json) {
		say_json("note", &fault);
		return;
	}
	fprintf(stderr, "ccbpf: %s: %s%s%s\n", printable(on), printable(why),
		remedy ? "; " : "", printable(remedy));
}

static int fail_permission(const char *what, const char *on, int err)
{
	const char *missing = kernel_missing_caps(err == EACCES);

	if (missing)
		return FAIL(EXIT_PERMISSION, .what = what, .on = on,
			    .why = text("%s: this process lacks %s",
					strerror(err), missing),
			    .remedy = kernel_caps_remedy());
	return FAIL(
		EXIT_PERMISSION, .what = what, .on = on,
		.why = text("%s, though no capability is missing",
			    strerror(err)),
		.remedy =
			"see whether lockdown, a security module or a container forbids it: `ccbpf check`");
}

int fail_errno(const char *what, const char *on, int err)
{
	static const struct {
		int err;
		const char *why, *remedy;
	} known[] = {
		{ ENOMEM, "the kernel has no memory for it",
		  "free some, or raise memory.max of this cgroup: BPF maps count there" },
		{ ENOSPC, "no space is left",
		  "free some; `ccbpf clean` removes what is not used" },
		{ E2BIG, "the kernel refuses a map of this size",
		  "raise the memory limits of this system" },
		{ EEXIST, "it is there already",
		  "`ccbpf clean` removes what an interrupted ccbpf left" },
		{ EROFS, "the file system is read-only",
		  "mount bpffs read-write" },
		{ EMFILE, "too many open files", "raise `ulimit -n`" },
	};

	if (err < 0)
		err = -err;
	if (err == EPERM || err == EACCES)
		return fail_permission(what, on, err);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].err == err)
			return FAIL(EXIT_FAILED, .what = what, .on = on,
				    .why = text("%s (%s)", known[i].why,
						strerror(err)),
				    .remedy = known[i].remedy);
	return FAIL(
		EXIT_FAILED, .what = what, .on = on, .why = strerror(err),
		.remedy =
			"`ccbpf check` shows what this kernel offers, `-v` what libbpf says, if it was asked");
}

int fail_load(const char *what, const char *on, int err)
{
	switch (-err) {
	case EINVAL:
	case ESRCH:
	case ENOTSUP:
	case ENOENT:
		return FAIL(
			EXIT_KERNEL, .what = what, .on = on,
			.why = text(
				"this kernel does not accept its programs (%s)",
				strerror(-err)),
			.remedy =
				"`ccbpf check` says what is missing, `-vv` shows the verifier's log");
	case E2BIG:
		return FAIL(
			EXIT_KERNEL, .what = what, .on = on,
			.why = text(
				"its programs are too much for this kernel's verifier, or a map for its memory (%s)",
				strerror(-err)),
			.remedy = "`-vv` shows what the kernel says");
	default:
		return fail_errno(what, on, err);
	}
}
