// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf run [NAME] [-d] [-u] [--dscp le] [--uid USER] [-q] [--] COMMAND [ARGUMENT…], in short
 * `netnice COMMAND …`: run a command whose TCP connections are in the background: in what
 * they send and what they receive, or in one of both (-u, -d).
 *
 *   1. enable the controller of what is sent, if it is not
 *   2. make a cgroup, attach bpf/run.bpf.c and bpf/rx_le.bpf.c to it, pin (rules/run.h)
 *   3. start the command in that cgroup, as the user who called this command by sudo (sys/user.h)
 *   4. wait, sending on what signals come
 *   5. remove cgroup and pins, say in one line what was sent and received, end as the command ended
 *
 * Without privilege it moves itself to a cgroup that an administrator has prepared by
 * `ccbpf run --prepare USER|CGROUP [NAME] [--dscp le]` (cmd/prepare.h), and becomes the command.
 *
 * The lock of the pin directory is held in 1, 2 and 5. Its exit code is the command's; 125:
 * ccbpf itself failed, 126: the command cannot be executed, 127: it is not found, as env(1)
 * and nice(1) have it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/begin.h"
#include "cmd/hints.h"
#include "cmd/prepare.h"
#include "cmd/sweep.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"
#include "rules/prepared.h"
#include "rules/programs.h"
#include "rules/rule.h"
#include "rules/run.h"
#include "sys/child.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "sys/user.h"
#include "util/capabilities.h"
#include "util/text.h"

#define WHAT "run"

#define EXIT_NOT_EXECUTED 126
#define EXIT_NOT_FOUND 127

/* `netnice NAME -- COMMAND`, where NAME is neither a controller nor a command. */
static int check_name(const struct request *request)
{
	char **rest = request->rest;

	if (request->quoted || request->n_args || !rest[1] || strcmp(rest[1], "--") ||
	    !child_unknown(rest[0]))
		return EXIT_OK;
	return controller_unknown(WHAT, rest[0]);
}

/* `out`: the path of a prepared cgroup that cannot be entered, or NULL. */
static int not_permitted(const char *out)
{
	const char *use = "", *prepared = hint_prepared(&use);

	if (out)
		return FAIL(
			EXIT_PERMISSION, .what = WHAT, .on = text("in the cgroup %s", out),
			.why = "it was prepared for you, but this session is outside of your own systemd's cgroup",
			.remedy = "`systemd-run --user --scope -q netnice COMMAND`");
	if (*prepared)
		return FAIL(
			EXIT_PERMISSION, .what = WHAT,
			.why = text("a cgroup is prepared for you, but only for uploads by %s",
				    prepared),
			.remedy = text(
				"`%s` uses it; for more `sudo netnice`, or ask an administrator",
				use));
	return FAIL(
		EXIT_PERMISSION, .what = WHAT,
		.why = text("this process lacks %s", capabilities_missing(CAPABILITIES_CHANGING)),
		.remedy =
			geteuid()
				? "`sudo netnice COMMAND`: the command itself is run as you again; or "
				  "an administrator prepares it for you: `ccbpf run --prepare USER`"
				: capabilities_remedy());
}

/* Without an option: both, where the kernel can, and the controller is of the background. */
static unsigned int directions_of(const struct request *request, const struct controller *c)
{
	bool both = request->upload == request->download;
	bool download = request->download || (both && c->open && programs_can_receive());

	return (request->upload || both ? CCBPF_RUN_UPLOAD : 0) |
	       (download ? CCBPF_RUN_DOWNLOAD : 0);
}

/* What chooses how to send makes no sense where only what is received is in the background. */
static int check_directions(const struct request *request)
{
	const char *on = request->n_args	  ? request->args[0]
			 : request->own[RUN_DSCP] ? "--dscp"
						  : NULL;

	if (!on || request->upload || !request->download)
		return EXIT_OK;
	return rule_fail_only_receives(WHAT, on);
}

static int not_started(char **argv, const char *step, int err)
{
	int code;

	if (step) {
		fail_errno(WHAT, text("%s: %s", argv[0], step), err);
		return EXIT_OURS;
	}
	code = err == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTED;
	fault_exit(code);
	FAIL(EXIT_FAILED, .what = WHAT, .on = argv[0], .why = strerror(-err),
	     .remedy = err == -ENOENT ? "see whether it is installed, and in PATH" : NULL);
	return code;
}

/* Step 5. A directory that cannot be locked is left to the next command. */
static unsigned int end(struct run *run)
{
	unsigned int left;

	run_count(run);
	if (pins_lock_change(WHAT))
		return 0;
	left = run_end(run);
	if (run->about.directions & CCBPF_RUN_DOWNLOAD)
		sweep(WHAT, SWEEP_UNUSED, NULL); /* the shared maps, where nothing else uses them */
	pins_unlock();
	return left;
}

static void say(struct run *run, unsigned int left)
{
	struct json_object *doc;

	if (output.json) {
		doc = json_object_new_object();
		json_object_object_add(doc, "run", run_json(run));
		output_json_to(stderr, doc);
		return;
	}
	note(run->about.command, run_words(run),
	     left ? text("%u of its processes stay%s in the background, in the cgroup %s: after "
			 "their end `ccbpf clean` removes that",
			 left, left == 1 ? "s" : "", run->about.cgroup)
		  : NULL);
}

static int lead(const struct request *request, const struct user *user, struct run *run)
{
	const char *step;
	unsigned int left;
	pid_t pid;
	int status = 0, err = child_start(request->rest, run->cgroup_fd, user, &pid, &step);

	if (!err)
		status = child_wait(pid);
	run->phase = RUN_REST;
	left = end(run);
	if (err) {
		run_close(run);
		return not_started(request->rest, step, err);
	}
	if (left)
		run->phase = RUN_BEHIND;
	if (!request->quiet) {
		say(run, left);
		hint_user(request, user, status);
	}
	run_close(run);
	return child_end_like(status);
}

/* Without privilege. Returns only where it fails. */
static int become(const struct request *request, const struct ccbpf_run *about)
{
	char cgroup[CCBPF_CGROUP_LEN];
	int err = request->own[RUN_UID] || request->download
			  ? -ENOENT
			  : prepared_enter(&about->choice, cgroup);

	if (!err) {
		if (!request->quiet) {
			hint_only_sends(request);
			hint_daemon(request, CCBPF_RUN_UPLOAD);
		}
		return not_started(request->rest, NULL, child_none(request->rest));
	}
	not_permitted(err == -EACCES ? cgroup : NULL);
	return EXIT_OURS;
}

static int run(const struct request *request)
{
	const struct controller *c = request->n_args ? controller_find(request->args[0])
						     : controller_background();
	struct ccbpf_run about;
	struct user user = { 0 };
	struct run run;
	int err = EXIT_OK;

	if (request->own[RUN_PREPARE]) {
		fault_exit(0);
		return prepare(request, c);
	}
	if (request->own[RUN_OFF])
		err = FAIL(EXIT_USAGE, .what = WHAT, .on = "--off",
			   .why = "it takes a preparation back",
			   .remedy = "`ccbpf run --prepare USER --off`");
	else if (!request->rest)
		err = FAIL(EXIT_USAGE, .what = WHAT, .why = "no command is given",
			   .remedy = "for example: `netnice rsync -a …`");
	if (!err)
		err = check_name(request);
	if (!err)
		err = user_find(WHAT, request->own[RUN_UID], &user);
	if (!err)
		err = check_directions(request);
	if (!err)
		err = begin_check(WHAT, c, user.uid);
	if (!err)
		err = begin_describe(WHAT, request, c, &user, directions_of(request, c), &about);
	if (!err && capabilities_missing(CAPABILITIES_CHANGING)) {
		user_free(&user);
		return become(request, &about);
	}
	if (!err)
		err = kernel_require(WHAT, NULL);
	if (!err)
		err = begin(WHAT, c, &about, request->quiet, &run);
	if (!err && !request->quiet) {
		hint_received(request, c, about.directions);
		hint_daemon(request, about.directions);
	}
	err = err ? EXIT_OURS : lead(request, &user, &run);
	user_free(&user);
	return err;
}

static const struct argp_option options[] = {
	{ "download", 'd', 0, 0,
	  "only what it receives (without -d and -u, and with -du: both directions)", 0 },
	{ "upload", 'u', 0, 0, "only what it sends", 0 },
	{ "dscp", OPTION_OWN + RUN_DSCP, "le", 0, "mark the packets as well: lower effort", 0 },
	{ "uid", OPTION_OWN + RUN_UID, "USER", 0,
	  "run it as this user (default: who called this command by sudo, else the user that this process is)",
	  0 },
	{ "prepare", OPTION_OWN + RUN_PREPARE, "USER", 0,
	  "allow this user to run commands without privilege, with what they send in the background, in a cgroup that is delegated to the "
	  "user (or give the path of that cgroup); runs no command",
	  0 },
	{ "off", OPTION_OWN + RUN_OFF, 0, 0,
	  "with --prepare: take it back; connections that are open keep their controller", 0 },
	{ "quiet", 'q', 0, 0,
	  "print only errors: nothing at the end, and no warning at the start, for example that downloads are not held back",
	  0 },
	{ 0 },
};

const struct command cmd_run = {
	.name = "run",
	.args = "[NAME] [--] COMMAND [ARGUMENT...]",
	.text = "Run a command in the background class",
	.more = "For what the command sends, every TCP connection of the command and its children gets the controller NAME, by default `le`, "
		"unless the program chooses one itself. For what it receives, the receive window yields, whatever "
		"the sender's controller is, over TCP with timestamps (QUIC is UDP, and received as usual); where it does not, a line on stderr "
		"says so. `netnice COMMAND` is the same. "
		"By `sudo netnice COMMAND` the command runs as the user who called sudo; `sudo netnice sudo COMMAND` runs it as root. "
		"NAME is enabled if it is not, and stays enabled until `ccbpf disable NAME`: meanwhile any user can select it. At the "
		"end one line on stderr says what was sent and received. The exit code is the command's; 125: ccbpf failed, 126: the "
		"command cannot be executed, 127: it is not found. Connections that a daemon opens for the command are not included.",
	.options = options,
	.takes_command = true,
	.run = run,
};
