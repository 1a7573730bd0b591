/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Errors and notes: every one is one sentence on stderr that names what failed,
 * on what, why, and the remedy; under
 * --json it is {"error": {"what", "on", "why", "remedy", "exit"}} (a note:
 * {"note": {"on", "why", "remedy"}}).
 */
#ifndef CCBPF_ERRORS_H
#define CCBPF_ERRORS_H

/*
 * What the command exits with: a promise to scripts.
 *
 *   X(name, number, text)
 */
#define EXIT_CODES(X)                              \
	X(OK, 0, "done")                           \
	X(FAILED, 1, "failed")                     \
	X(USAGE, 2, "usage")                       \
	X(KERNEL, 3, "the kernel lacks something") \
	X(PERMISSION, 4, "permission")             \
	X(NOTHING, 5, "nothing to do: it is so already, or what was named is not there")

enum exit_code {
#define X(name, number, text) EXIT_##name = number,
	EXIT_CODES(X)
#undef X
};

struct fault {
	enum exit_code exit;
	const char *what; /* a verb: "enable", or "read the arguments" */
	const char *on; /* its object: a controller, a path, or NULL */
	const char *why;
	const char *remedy; /* or NULL */
};

/*
 * The place in a file that the faults said from now on are about: "FILE:LINE: " in front of them,
 * and the members "file" and "line" of their JSON. Line 0: the file as a whole; file NULL: none.
 */
void fault_place(const char *file, unsigned int line);

/*
 * What the process exits with after the faults said from now on, where that is not their own code:
 * the member "exit" of their JSON. 0: their own.
 */
void fault_exit(int code);

/* End the process because of a fault, whose own code is given. */
_Noreturn void fault_end(int code);

/*
 * Say a fault on stderr. Returns its exit code, so that a caller can `return
 * fail(...)`.
 */
int fail(const struct fault *fault);
#define FAIL(code, ...) fail(&(struct fault){ .exit = (code), __VA_ARGS__ })

/* The sentence of the newest fault, printable, without "ccbpf: "; "" before the first one. */
const char *fault_said(void);

/*
 * Say that `what` on `on` failed with `err` (an errno, positive or negative)
 * and what helps against that errno. Returns the exit code: EXIT_PERMISSION for
 * EPERM and EACCES (the missing capabilities are named), else EXIT_FAILED.
 */
int fail_errno(const char *what, const char *on, int err);

/*
 * The same for a file that the user has named, or that was found by what the user has set: what is
 * wrong with its path or its file system is said with this remedy.
 */
int fail_file(const char *what, const char *path, int err, const char *remedy);
#define REMEDY_WRITE "make its directory, or name another file"

/*
 * The same for `err` (negative) of bpf_object__load(): what this kernel or its verifier
 * does not accept is EXIT_KERNEL.
 */
int fail_load(const char *what, const char *on, int err);

/* Say that there is no memory, and end the process: for util/memory.h. */
void fail_out_of_memory(void);

/* Say something on stderr that is no failure. `remedy` may be NULL. */
void note(const char *on, const char *why, const char *remedy);

#endif
