// SPDX-License-Identifier: GPL-2.0-only
/* What `ccbpf run` says about its command: see hints.h. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "ccbpf/rule.h"
#include "cmd/hints.h"
#include "out/errors.h"
#include "rules/daemons.h"
#include "rules/prepared.h"
#include "sys/chirps.h"
#include "util/capabilities.h"
#include "util/text.h"

void hint_received(const struct request *request, const struct controller *c,
		   unsigned int directions)
{
	const char *why = NULL, *remedy = "`ccbpf check` says what is missing";

	if (directions & CCBPF_RUN_DOWNLOAD) {
		int err = chirps_try_storage();

		if (err)
			why = text("this kernel gives sockets no storage (%s)", strerror(-err));
	} else if (request->upload == request->download) {
		why = c->open ? "this kernel lacks what downloads in the background read"
			      : text("%s is not a background controller", c->name);
		remedy = c->open ? remedy : "`-du` holds it back all the same";
	}
	if (why)
		note(request->rest[0], text("what it receives is not in the background: %s", why),
		     remedy);
}

void hint_only_sends(const struct request *request)
{
	if (!request->upload)
		note(request->rest[0],
		     "what it receives is not in the background: a prepared cgroup is for what is sent",
		     "`sudo netnice COMMAND` does both");
}

/* What gives its traffic to the background. `who` may do that, if it is not the caller. */
static const char *daemon_remedy(const struct daemon_work *work, unsigned int directions,
				 const char *who)
{
	const char *what = directions == CCBPF_RUN_UPLOAD     ? "NAME"
			   : directions == CCBPF_RUN_DOWNLOAD ? "-d"
							      : "-du";
	const char *unit = work->unit ?: "UNIT";

	if (work->user)
		return text(
			"%s`ccbpf assign %s --cgroup PATH` does: `systemctl --user show -P ControlGroup %s` says the path",
			who, what, unit);
	return text("%s`ccbpf assign %s --cgroup unit:%s` does", who, what, unit);
}

void hint_daemon(const struct request *request, unsigned int directions)
{
	const char *who = capabilities_missing(CAPABILITIES_CHANGING) ? "an administrator's " : "";
	struct daemon_work work;
	const char *why;

	if (!daemon_of(request->rest, &work))
		return;
	why = work.named ? "the unit that it starts does the work, and `run` does not reach that"
			 : text("a daemon %s its work (%s), and `run` does not reach that",
				work.depends ? "may do" : "does", work.unit);
	note(work.command, why, daemon_remedy(&work, directions, who));
}

void hint_user(const struct request *request, const struct user *user, int status)
{
	if (user->by_sudo && WIFEXITED(status) && WEXITSTATUS(status))
		note(request->rest[0],
		     text("it ended with %d; it ran as %s, who called sudo", WEXITSTATUS(status),
			  user->name ?: text("user %u", user->uid)),
		     "`sudo netnice sudo COMMAND` runs it as root");
}

/* How netnice uses what is prepared for a choice: "netnice tcpw_lp --dscp le COMMAND". */
static const char *use_words(const struct controller *c, bool le)
{
	return text("netnice %s%s%sCOMMAND", c == controller_background() ? "" : c->name,
		    c == controller_background() ? "" : " ", le ? "--dscp le " : "");
}

const char *hint_prepared(const char **use)
{
	char words[TEXT_MOST] = "";

	for_each_controller (c) {
		for (int le = 0; le < 2; le++) {
			struct ccbpf_choice choice = { .dscp = le ? CCBPF_DSCP_LE
								  : CCBPF_DSCP_KEEP };

			snprintf(choice.controller, sizeof(choice.controller), "%s", c->name);
			if (!prepared_exists(&choice))
				continue;
			append(words, sizeof(words), " and ", "%s %s --dscp", c->name,
			       le ? "with" : "without");
			*use = use_words(c, le);
		}
	}
	return text("%s", words);
}
