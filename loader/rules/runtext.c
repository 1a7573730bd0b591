// SPDX-License-Identifier: GPL-2.0-only
/* What is known of a run, for a person and as JSON: see run.h. */
#include <string.h>

#include "out/human.h"
#include "out/json.h"
#include "rules/run.h"
#include "sys/cgroup.h"
#include "util/clock.h"
#include "util/text.h"

const char *run_phase_word(enum run_phase phase)
{
	static const char *const words[] = {
		[RUN_REST] = "ended",
		[RUN_LED] = "running",
		[RUN_PREPARED] = "prepared",
		[RUN_BEHIND] = "left behind",
	};

	return words[phase];
}

static const char *connections(uint64_t n)
{
	return text("%llu connection%s", (unsigned long long)n, n == 1 ? "" : "s");
}

static const char *was(uint64_t n)
{
	return n == 1 ? "was" : "were";
}

/* "12.3 s": what is below a minute matters here. */
static const char *duration(uint64_t ns)
{
	return ns < 60000000000ULL ? text("%.1f s", ns / 1e9) : human_age(ns);
}

/* Where both directions are in the background, nothing received in it is not worth a word. */
static void add_received(char *words, unsigned int size, const struct ccbpf_run_counts *c,
			 unsigned int directions)
{
	const struct ccbpf_choice_counts *choice = &c->choice;

	if (choice->receivers)
		append(words, size, "",
		       "received %s in the background over %s; their receive window was held back for %s of %s",
		       human_bytes(c->received), connections(choice->receivers),
		       duration(c->receiving_held_ns), duration(c->receiving_ns));
	else if (!(directions & CCBPF_RUN_UPLOAD))
		append(words, size, "", "no TCP connection of it received in the background");
	if (choice->unstamped)
		append(words, size, "; ", "%s without TCP timestamps received as usual",
		       connections(choice->unstamped));
	if (choice->unheld)
		append(words, size, "; ", "%s received as usual: no kernel memory",
		       connections(choice->unheld));
}

/* The counts have a connection's bytes when it ends. */
static void add_sent(char *words, unsigned int size, const struct run *run)
{
	const struct ccbpf_run_counts *c = &run->counts;
	const char *controller = run->about.choice.controller;
	uint64_t open = c->opened - c->closed;

	if (c->closed || !run->open_bytes)
		append(words, size, "; ", "sent %s in the background (%s) over %s",
		       human_bytes(c->bytes), controller,
		       connections(run->open_bytes ? c->closed : c->opened));
	if (run->open_bytes)
		append(words, size, "; ", "sent %s so far (%s) over %s not closed yet",
		       human_bytes(run->open_bytes), controller, connections(open));
	append(words, size, "; ", "the window was held back for %s of %s", duration(c->held_ns),
	       duration(c->sending_ns));
	if (open && !run->open_bytes)
		append(words, size, "; ", "%s not closed yet, not counted in full",
		       connections(open));
}

const char *run_words(const struct run *run)
{
	const struct ccbpf_run_counts *c = &run->counts;
	const struct ccbpf_choice_counts *choice = &c->choice;
	static char words[TEXT_MOST];

	*words = '\0';
	if (run->about.directions & CCBPF_RUN_DOWNLOAD)
		add_received(words, sizeof(words), c, run->about.directions);
	if (!(run->about.directions & CCBPF_RUN_UPLOAD))
		return words;
	if (c->opened)
		add_sent(words, sizeof(words), run);
	else if (!choice->receivers)
		append(words, sizeof(words), "; ", "no TCP connection of it was in the background");
	if (c->uncounted)
		append(words, sizeof(words), "; ", "%s not counted: no kernel memory",
		       connections(c->uncounted));
	if (choice->kept)
		append(words, sizeof(words), "; ", "%s kept the controller chosen by the program",
		       connections(choice->kept));
	if (choice->refused)
		append(words, sizeof(words), "; ", "%s %s refused %s and went on with the default",
		       connections(choice->refused), was(choice->refused),
		       run->about.choice.controller);
	if (choice->unmarked)
		append(words, sizeof(words), "; ", "%s could not be marked",
		       connections(choice->unmarked));
	return words;
}

struct json_object *run_json(const struct run *run)
{
	const struct ccbpf_run_counts *c = &run->counts;
	const struct ccbpf_run *about = &run->about;
	struct json_object *doc = json_object_new_object(), *counts = json_object_new_object();

	add_number(doc, "id", run->id);
	add_text(doc, "state", run_phase_word(run->phase));
	add_text(doc, "command", run->known ? about->command : NULL);
	add_text(doc, "controller", run->known ? about->choice.controller : NULL);
	add_bool(doc, "upload", about->directions & CCBPF_RUN_UPLOAD);
	add_bool(doc, "download", about->directions & CCBPF_RUN_DOWNLOAD);
	json_object_object_add(doc, "dscp",
			       run->known && about->choice.dscp < CCBPF_DSCP_KEEP
				       ? json_object_new_int(about->choice.dscp)
				       : NULL);
	json_object_object_add(doc, "uid", run->known ? json_object_new_int64(about->uid) : NULL);
	add_text(doc, "cgroup", *about->cgroup ? about->cgroup : NULL);
	json_object_object_add(doc, "age_s",
			       run->known ? json_object_new_double(age_ns(about->started_ns) / 1e9)
					  : NULL);
	add_number(doc, "processes", *about->cgroup ? cgroup_processes(about->cgroup, NULL, 0) : 0);
#define X(name, text) add_number(counts, #name, c->choice.name);
	CCBPF_CHOICE_COUNTS(X)
#undef X
#define X(name, text) add_number(counts, #name, c->name);
	CCBPF_RUN_COUNTS(X)
#undef X
	json_object_object_add(doc, "counts", counts);
	return doc;
}
