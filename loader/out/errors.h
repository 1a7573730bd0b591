/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Errors and notes: every one is one sentence on stderr that names what failed,
 * on what, why, and the remedy; under
 * --json it is {"error": {"what", "on", "why", "remedy", "exit"}} (a note:
 * {"note": {"on", "why", "remedy"}}).
 */
#ifndef CCBPF_ERRORS_H
#define CCBPF_ERRORS_H

/* What the command exits with: a promise to scripts. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_KERNEL = 3, /* the kernel lacks something */
	EXIT_PERMISSION = 4, /* missing, or the kernel refuses */
	EXIT_NOTHING = 5, /* nothing was done: already so, or not enabled */
};

struct fault {
	enum exit_code exit;
	const char *what; /* a verb: "enable", or "read the arguments" */
	const char *on; /* its object: a controller, a path, or NULL */
	const char *why;
	const char *remedy; /* or NULL */
};

/*
 * Say a fault on stderr. Returns its exit code, so that a caller can `return
 * fail(...)`.
 */
int fail(const struct fault *fault);
#define FAIL(code, ...) fail(&(struct fault){ .exit = (code), __VA_ARGS__ })

/*
 * Say that `what` on `on` failed with `err` (an errno, positive or negative)
 * and what helps against that errno. Returns the exit code: EXIT_PERMISSION for
 * EPERM and EACCES (the missing capabilities are named), else EXIT_FAILED.
 */
int fail_errno(const char *what, const char *on, int err);

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
