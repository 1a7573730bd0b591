// SPDX-License-Identifier: GPL-2.0-only
/* Errors and notes: see errors.h. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "out/printable.h"
#include "util/capabilities.h"
#include "util/text.h"

static struct {
	const char *file;
	unsigned int line;
} place;

void fault_place(const char *file, unsigned int line)
{
	place.file = file;
	place.line = line;
}

static int exits;

void fault_exit(int code)
{
	exits = code;
}

void fault_end(int code)
{
	exit(exits ?: code);
}

static void add_place(struct json_object *body)
{
	if (!place.file)
		return;
	json_object_object_add(body, "file", json_text(place.file));
	if (place.line)
		add_number(body, "line", place.line);
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
		add_place(body);
	if (fault->what)
		add_number(body, "exit", exits ?: (int)fault->exit);
	json_object_object_add(doc, kind, body);
	output_json_to(stderr, doc);
}

/*
 * A copy for a terminal: see make_printable(). In a buffer of the caller, because an
 * error is also said where no memory is left.
 */
static const char *printable(const char *string, char buffer[TEXT_MOST])
{
	snprintf(buffer, TEXT_MOST, "%s", string ?: "");
	return make_printable(buffer);
}

/* "FILE:LINE: ", or "". */
static void say_place(void)
{
	char buffer[TEXT_MOST];

	if (place.file && place.line)
		fprintf(stderr, "%s:%u: ", printable(place.file, buffer), place.line);
	else if (place.file)
		fprintf(stderr, "%s: ", printable(place.file, buffer));
}

static char sentence[4 * TEXT_MOST]; /* of the newest fault; static, because memory may be short */

static const char *sentence_of(const struct fault *fault)
{
	char buffers[4][TEXT_MOST];

	snprintf(sentence, sizeof(sentence), "cannot %s%s%s: %s%s%s",
		 printable(fault->what, buffers[0]), fault->on ? " " : "",
		 printable(fault->on, buffers[1]), printable(fault->why, buffers[2]),
		 fault->remedy ? "; " : "", printable(fault->remedy, buffers[3]));
	return sentence;
}

int fail(const struct fault *fault)
{
	const char *said = sentence_of(fault);

	if (output.json && !output.recorded) {
		say_json("error", fault);
		return fault->exit;
	}
	fprintf(stderr, "%sccbpf:%s ", output_style(stderr, STYLE_ERROR),
		output_style(stderr, STYLE_NONE));
	say_place();
	fprintf(stderr, "%s\n", said);
	return fault->exit;
}

const char *fault_said(void)
{
	return sentence;
}

void note(const char *on, const char *why, const char *remedy)
{
	struct fault fault = { .on = on, .why = why, .remedy = remedy };
	char buffers[3][TEXT_MOST];

	if (output.json && !output.recorded) {
		say_json("note", &fault);
		return;
	}
	fprintf(stderr, "ccbpf: %s: %s%s%s\n", printable(on, buffers[0]),
		printable(why, buffers[1]), remedy ? "; " : "", printable(remedy, buffers[2]));
}

void fail_out_of_memory(void)
{
	fault_end(FAIL(EXIT_FAILED, .what = "go on", .why = "out of memory",
		       .remedy = "free memory, or raise memory.max of this cgroup"));
}

static int fail_permission(const char *what, const char *on, int err)
{
	const char *missing =
		capabilities_missing(err == EACCES ? CAPABILITIES_FILES : CAPABILITIES_CHANGING);

	if (!missing && err == EPERM)
		missing = capabilities_missing(CAPABILITIES_ALL);
	if (missing)
		return FAIL(EXIT_PERMISSION, .what = what, .on = on,
			    .why = text("%s: this process lacks %s", strerror(err), missing),
			    .remedy = capabilities_remedy());
	return FAIL(
		EXIT_PERMISSION, .what = what, .on = on,
		.why = text("%s, though no capability is missing", strerror(err)),
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
		{ ENOSPC, "no space is left", "free some; `ccbpf clean` removes what is not used" },
		{ E2BIG, "the kernel refuses a map of this size",
		  "`-v` shows which map: libbpf names it" },
		{ EEXIST, "it is there already",
		  "`ccbpf clean` removes what an interrupted ccbpf left" },
		{ EROFS, "the file system is read-only",
		  "mount it read-write: bpffs for pins, /proc/sys for sysctls" },
		{ ENOTEMPTY, "it holds something that ccbpf did not put there",
		  "remove that first, if nobody needs it" },
		{ ENOLINK, "somebody detached its link",
		  "`ccbpf clean` removes what is left, then enable it" },
		{ EMFILE, "too many open files", "raise `ulimit -n`" },
	};

	if (err < 0)
		err = -err;
	if (err == EPERM || err == EACCES)
		return fail_permission(what, on, err);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].err == err)
			return FAIL(EXIT_FAILED, .what = what, .on = on,
				    .why = text("%s (%s)", known[i].why, strerror(err)),
				    .remedy = known[i].remedy);
	return FAIL(
		EXIT_FAILED, .what = what, .on = on, .why = strerror(err),
		.remedy =
			"`ccbpf check` shows what this kernel offers; `-v` shows libbpf's messages, if libbpf was called");
}

int fail_file(const char *what, const char *path, int err, const char *remedy)
{
	static const int of_files[] = { ENOENT,	      ENOTDIR, EISDIR,	   ELOOP,
					ENAMETOOLONG, EROFS,   EOPNOTSUPP, ENXIO };

	if (err < 0)
		err = -err;
	for (size_t i = 0; i < sizeof(of_files) / sizeof(of_files[0]); i++)
		if (of_files[i] == err)
			return FAIL(EXIT_FAILED, .what = what, .on = path, .why = strerror(err),
				    .remedy = remedy);
	return fail_errno(what, path, err);
}

int fail_load(const char *what, const char *on, int err)
{
	switch (-err) {
	case EACCES: /* the verifier's, unless a capability is missing */
		if (capabilities_missing(CAPABILITIES_CHANGING))
			return fail_errno(what, on, err);
		/* fall through */
	case EINVAL:
	case ESRCH:
	case ENOTSUP:
	case ENOENT:
		return FAIL(
			EXIT_KERNEL, .what = what, .on = on,
			.why = text("this kernel does not accept its programs (%s)",
				    strerror(-err)),
			.remedy =
				"`ccbpf check` says what is missing, `-v` shows the verifier's log");
	case E2BIG:
		return FAIL(
			EXIT_KERNEL, .what = what, .on = on,
			.why = text(
				"its programs are too complex for this kernel's verifier, or a map is too large for its memory (%s)",
				strerror(-err)),
			.remedy = "`-v` shows what the kernel says");
	default:
		return fail_errno(what, on, err);
	}
}
