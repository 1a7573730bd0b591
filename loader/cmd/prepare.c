// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf run --prepare USER [NAME] [--dscp le] [--off]: a cgroup in which the user's `netnice` needs no
 * privilege (rules/prepared.h). With --off the program at that cgroup goes, and the cgroup itself
 * unless a process is left in it; connections keep the controller that they have.
 */
#include "cmd/begin.h"
#include "cmd/prepare.h"
#include "cmd/sweep.h"
#include "out/errors.h"
#include "out/output.h"
#include "rules/prepared.h"
#include "rules/run.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/text.h"

#define WHAT "prepare"

static int check(const struct request *request)
{
	if (request->download)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = "--download",
			    .why = "a prepared cgroup is for what is sent",
			    .remedy = "`sudo netnice --download COMMAND`");
	if (request->rest)
		return FAIL(EXIT_USAGE, .what = WHAT, .on = "--prepare",
			    .why = "it takes no command, which the user runs later",
			    .remedy = "leave the command out");
	return EXIT_OK;
}

static int take_back(const struct ccbpf_run *about, const char *controller, bool quiet)
{
	int err = pins_lock_change(WHAT);

	if (err)
		return err;
	err = run_take_back(WHAT, about->cgroup);
	if (!err)
		sweep(WHAT, SWEEP_UNUSED, NULL); /* the shared maps, where nobody else uses them */
	pins_unlock();
	if (!err && !quiet)
		note(text("user %u", about->uid), text("`netnice` no longer uses %s", controller),
		     NULL);
	return err;
}

static int make(const struct ccbpf_run *about, const struct controller *c, bool quiet)
{
	struct run run;
	int refused, err = begin(WHAT, c, about, quiet, &run);

	if (err && err != EXIT_NOTHING)
		return err;
	if (!err)
		run_close(&run);
	refused = prepared_open(about);
	if (refused)
		return fail_errno(WHAT, text("the cgroup %s", about->cgroup), refused);
	if (!err && !quiet)
		note(text("user %u", about->uid),
		     text("`netnice` uses %s, in the cgroup %s", c->name, about->cgroup), NULL);
	return err;
}

int prepare(const struct request *request, const struct controller *c)
{
	const struct user nobody = { 0 };
	bool off = request->own[RUN_OFF];
	struct ccbpf_run about;
	int err = check(request);

	if (!err)
		err = begin_describe(WHAT, request, c, &nobody, CCBPF_RUN_UPLOAD, &about);
	if (!err)
		err = kernel_require(WHAT, NULL);
	if (!err)
		err = prepared_plan(WHAT, request->own[RUN_PREPARE], &about);
	if (!err && !off)
		err = begin_check(WHAT, c, about.uid);
	if (err)
		return err;
	return off ? take_back(&about, c->name, request->quiet) : make(&about, c, request->quiet);
}
