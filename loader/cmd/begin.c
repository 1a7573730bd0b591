// SPDX-License-Identifier: GPL-2.0-only
/* How a run begins: see begin.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/begin.h"
#include "cmd/enable.h"
#include "cmd/sweep.h"
#include "out/errors.h"
#include "out/output.h"
#include "rules/rule.h"
#include "sys/pins.h"
#include "sys/shared.h"
#include "util/clock.h"
#include "util/text.h"

/* A controller that any process may select, or a command of root. */
int begin_check(const char *what, const struct controller *c, uid_t uid)
{
	if (c->open || !uid)
		return EXIT_OK;
	return FAIL(
		EXIT_PERMISSION, .what = what, .on = c->name,
		.why = "it takes more than others, so only a process with cap_net_admin may select it",
		.remedy =
			"choose a background controller (`ccbpf list`), or run it in a shell of root's (`sudo -i`)");
}

int begin_describe(const char *what, const struct request *request, const struct controller *c,
		   const struct user *user, unsigned int directions, struct ccbpf_run *about)
{
	const char *command = request->rest ? request->rest[0] : "", *slash = strrchr(command, '/');

	*about = (struct ccbpf_run){ .uid = user->uid,
				     .started_ns = monotonic_ns(),
				     .directions = directions };
	snprintf(about->choice.controller, sizeof(about->choice.controller), "%s",
		 directions & CCBPF_RUN_UPLOAD ? c->name : CCBPF_RECEIVER);
	about->choice.flags = c->open ? 0 : CCBPF_CHOICE_RESTRICTED;
	snprintf(about->command, sizeof(about->command), "%s", slash ? slash + 1 : command);
	return rule_parse_dscp(what, request->own[RUN_DSCP], &about->choice.dscp);
}

/* A prepared cgroup is prepared once. */
static int check_new(const char *what, const struct ccbpf_run *about)
{
	struct run *runs;
	unsigned int n = runs_read(&runs);
	bool there = false;

	for (unsigned int i = 0; i < n; i++)
		there |= runs[i].phase == RUN_PREPARED &&
			 !strcmp(runs[i].about.cgroup, about->cgroup);
	free(runs);
	return there ? FAIL(EXIT_NOTHING, .what = what, .on = text("the cgroup %s", about->cgroup),
			    .why = "it is prepared already", .remedy = "`ccbpf status` shows it")
		     : EXIT_OK;
}

/* An enabled controller has its records in the shared map. */
static int require_flows(const char *what)
{
	int fd, err = shared_open(what, SHARED_FLOWS, &fd);

	if (fd >= 0)
		close(fd);
	if (!err && fd < 0)
		err = pin_unusable(what, pin_path(shared_name(SHARED_FLOWS), NULL), -ENOENT);
	return err;
}

int begin(const char *what, const struct controller *c, const struct ccbpf_run *about, bool quiet,
	  struct run *run)
{
	bool did = false, upload = about->directions & CCBPF_RUN_UPLOAD;
	int err = pins_lock_change(what);

	if (err)
		return err;
	err = sweep(what, SWEEP_RESTS, NULL);
	if (!err)
		err = check_new(what, about);
	if (!err && upload)
		err = enable_needed(c, &did);
	if (!err && upload)
		err = require_flows(what);
	if (!err) {
		err = run_begin(what, about, run);
		if (err)
			sweep(what, SWEEP_UNUSED,
			      NULL); /* the shared maps, where nobody else uses them */
	}
	if (err && did)
		enable_give_back(c);
	pins_unlock();
	if (!err && did && !quiet)
		enable_note(c);
	return err;
}
