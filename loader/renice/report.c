// SPDX-License-Identifier: GPL-2.0-only
/* What `ccbpf renice` says of the transfers: see report.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cc/flowtext.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/table.h"
#include "renice/report.h"
#include "util/capabilities.h"
#include "util/memory.h"
#include "util/text.h"

#define ROWS_MOST 20 /* of a table without -v */

/* What they are moved to, for a person. */
static const char *aim(const struct transfers *t)
{
	if (!ccbpf_renice_receives(t->config))
		return text("%s", t->config->to);
	return t->config->off ? "the foreground" : "the background";
}

/* Why the kernel refused a socket. */
static const char *refusal(const struct transfers *t, int error)
{
	if (ccbpf_renice_receives(t->config))
		return error == -ENOMEM ? "no memory for the state of its receive window"
					: strerror(-error);
	switch (-error) {
	case EPERM:
		return "its route locks the controller (`congctl lock`)";
	case ENOENT:
		return "the controller was disabled meanwhile";
	case EBUSY:
		return "the controller is being changed";
	default:
		return strerror(-error);
	}
}

static bool is_failure(enum outcome outcome)
{
	return outcome <= OUTCOME_LOST;
}

/* Why the outcome is a failure, or NULL. */
static const char *why(const struct transfers *t, const struct transfer *transfer)
{
	if (transfer->outcome == OUTCOME_REFUSED)
		return refusal(t, transfer->record.error);
	return transfer->outcome == OUTCOME_LOST ? "its program took it back" : NULL;
}

/* Whether the report names it: the others are only counted. */
static bool is_named(const struct transfer *transfer)
{
	return transfer->outcome <= OUTCOME_WOULD_MOVE;
}

static const char *first_failure(const struct transfers *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (is_failure(t->all[i].outcome))
			return why(t, &t->all[i]);
	return NULL;
}

static struct json_object *transfer_json(const struct transfers *t, const struct transfer *transfer)
{
	const struct ccbpf_renice_record *r = &transfer->record;
	struct json_object *doc = json_object_new_object();

	add_number(doc, "netns", t->places[transfer->netns].inode);
	add_text(doc, "netns_name", t->places[transfer->netns].name);
	add_text(doc, "local_addr", address_text(r->family, r->local_addr));
	add_number(doc, "local_port", r->local_port);
	add_text(doc, "remote_addr", address_text(r->family, r->remote_addr));
	add_number(doc, "remote_port", r->remote_port);
	add_text(doc, "from", r->from);
	add_text(doc, "outcome", outcome_word(transfer->outcome));
	add_text(doc, "why", why(t, transfer));
	return doc;
}

static struct json_object *place_json(const struct place *place)
{
	struct json_object *doc = json_object_new_object();

	add_number(doc, "netns", place->inode);
	add_text(doc, "netns_name", place->name);
	add_text(doc, "error", place->error ? strerror(-place->error) : NULL);
	add_bool(doc, "unsettled", place->unsettled);
	return doc;
}

static void print_json(const struct transfers *t)
{
	const struct ccbpf_renice_config *config = t->config;
	bool receives = ccbpf_renice_receives(config);
	struct json_object *doc = json_object_new_object(), *places = json_object_new_array();
	struct json_list *list;

	add_text(doc, "to", receives ? NULL : config->to);
	add_bool(doc, "download", receives);
	add_bool(doc, "off", config->off);
	add_bool(doc, "dry_run", config->look);
	for (enum outcome outcome = 0; outcome < OUTCOMES; outcome++)
		add_number(doc, outcome_word(outcome), t->counts[outcome]);
	for (unsigned int i = 0; i < t->n_places; i++)
		json_object_array_add(places, place_json(&t->places[i]));
	json_object_object_add(doc, "namespaces", places);
	json_object_object_add(doc, "transfers", json_object_new_array());
	list = output_json_open(doc);
	for (size_t i = 0; i < t->n; i++) {
		const struct text_block *mark = text_mark();

		if (is_named(&t->all[i]))
			output_json_item(list, transfer_json(t, &t->all[i]));
		text_release(mark);
	}
	output_json_close(list);
}

/* "cubic → tcp_lp"; of what is received "in the background" */
static const char *change(const struct transfers *t, const struct transfer *transfer)
{
	if (ccbpf_renice_receives(t->config))
		return text("in %s", aim(t));
	return text("%.*s → %s", CCBPF_RENICE_NAME_LEN, transfer->record.from, t->config->to);
}

static void print_row(struct table *table, const struct transfers *t,
		      const struct transfer *transfer)
{
	const struct ccbpf_renice_record *r = &transfer->record;
	const struct text_block *mark = text_mark();
	bool failed = is_failure(transfer->outcome);

	table_cell(table, "%s", t->places[transfer->netns].name);
	table_cell(table, "%s", endpoint(r->family, r->local_addr, r->local_port));
	table_cell(table, "%s", endpoint(r->family, r->remote_addr, r->remote_port));
	table_cell(table, "%s", change(t, transfer));
	table_styled(table, failed ? STYLE_BAD : STYLE_GOOD, outcome_words(transfer->outcome));
	if (failed)
		table_note(table, why(t, transfer));
	text_release(mark);
}

/* What failed comes first. */
static int by_outcome(const void *a, const void *b)
{
	const struct transfer *x = *(struct transfer *const *)a, *y = *(struct transfer *const *)b;

	if (x->outcome != y->outcome)
		return x->outcome < y->outcome ? -1 : 1;
	return x < y ? -1 : x > y;
}

static size_t count_named(const struct transfers *t)
{
	size_t n = 0;

	for (enum outcome outcome = 0; outcome <= OUTCOME_WOULD_MOVE; outcome++)
		n += t->counts[outcome];
	return n;
}

static void print_table(const struct transfers *t)
{
	const struct column columns[] = {
		{ .title = "NETNS", .elastic = true },
		{ .title = "LOCAL", .elastic = true },
		{ .title = "REMOTE", .elastic = true },
		{ .title = ccbpf_renice_receives(t->config) ? "RECEIVES" : "CONTROLLER" },
		{ .title = "OUTCOME" },
	};
	size_t named = count_named(t), n = 0;
	size_t shown = output.verbose || named <= ROWS_MOST ? named : ROWS_MOST;
	const struct transfer **order = must_alloc(named, sizeof(*order));
	struct table *table = table_new(columns, 5);

	for (size_t i = 0; i < t->n; i++)
		if (is_named(&t->all[i]))
			order[n++] = &t->all[i];
	qsort(order, n, sizeof(*order), by_outcome);
	for (size_t i = 0; i < shown; i++)
		print_row(table, t, order[i]);
	table_print(table);
	if (shown < named)
		output_line("... and %zu more: -v shows all", named - shown);
	free(order);
}

static const char *plural(size_t n)
{
	return text("%zu transfer%s", n, n == 1 ? "" : "s");
}

/* What is counted even without -v, as it was asked for and not done. */
static bool is_left(enum outcome outcome)
{
	return is_failure(outcome) || outcome == OUTCOME_CLOSED || outcome == OUTCOME_UNSTAMPED ||
	       outcome == OUTCOME_ELSEWHERE;
}

/* "moved 3 transfers to tcp_lp; 1 refused" */
static void print_summary(const struct transfers *t)
{
	bool look = t->config->look;
	char rest[256] = "";

	for (enum outcome outcome = 0; outcome < OUTCOMES; outcome++)
		if (t->counts[outcome] && outcome != OUTCOME_MOVED &&
		    outcome != OUTCOME_WOULD_MOVE && (is_left(outcome) || output.verbose))
			append(rest, sizeof(rest), ", ", "%zu %s", t->counts[outcome],
			       outcome_words(outcome));
	output_line("%s %s to %s%s%s", look ? "would move" : "moved",
		    plural(t->counts[look ? OUTCOME_WOULD_MOVE : OUTCOME_MOVED]), aim(t),
		    *rest ? "; " : "", rest);
}

/* What was not searched, or not to its end. */
static void note_places(const struct transfers *t)
{
	for (unsigned int i = 0; i < t->n_places; i++) {
		const struct place *place = &t->places[i];
		const char *on = text("network namespace %s (%lu)", place->name,
				      (unsigned long)place->inode);
		const char *missing = capabilities_missing(CAPABILITIES_ALL);

		if (place->error == -EPERM && missing)
			note(on, text("it cannot be entered: this process lacks %s", missing),
			     capabilities_remedy());
		else if (place->error)
			note(on, text("it cannot be searched: %s", strerror(-place->error)), NULL);
		else if (place->unsettled)
			note(on, "connections are opened faster than they can be moved",
			     ccbpf_renice_receives(t->config)
				     ? "`ccbpf assign --download` is for new ones"
				     : "new ones get another default: `ccbpf enable NAME --default`");
	}
}

/* There was nothing to move. */
static int report_nothing(const char *what, const struct transfers *t)
{
	size_t left = t->counts[OUTCOME_LISTENS], has_it = t->counts[OUTCOME_HAS_IT];
	bool receives = ccbpf_renice_receives(t->config);
	const char *on = text("to %s", aim(t));
	char others[256] = "";

	for (enum outcome outcome = OUTCOME_UNSTAMPED; outcome <= OUTCOME_ELSEWHERE; outcome++)
		if (t->counts[outcome])
			append(others, sizeof(others), ", ", "%s %s", plural(t->counts[outcome]),
			       outcome_words(outcome));
	if (*others)
		return FAIL(EXIT_NOTHING, .what = what, .on = on,
			    .why = text("what matches is left alone: %s", others),
			    .remedy = "`ccbpf flows rx_le` shows by what a download is held");
	if (has_it)
		return FAIL(EXIT_NOTHING, .what = what, .on = on,
			    .why = text("what matches, %s, has it already", plural(has_it)),
			    .remedy = receives ? "`ccbpf flows rx_le` shows them"
					       : "`ss -ti` shows the controller of each");
	return FAIL(
		EXIT_NOTHING, .what = what, .on = on,
		.why = left ? text("no running transfer matches; what listens is left alone (%zu)",
				   left)
		       : t->config->off ? "no running transfer matches that `renice` holds"
					: "no running transfer matches",
		.remedy = t->config->off
				  ? "`ccbpf flows rx_le` shows by what a download is held"
				  : "`ss -ti` shows the transfers of this network namespace");
}

int report(const char *what, const struct transfers *t)
{
	size_t failed = t->counts[OUTCOME_REFUSED] + t->counts[OUTCOME_LOST];
	size_t named = count_named(t);

	note_places(t);
	if (!named)
		return report_nothing(what, t);
	if (output.json) {
		print_json(t);
	} else {
		print_table(t);
		print_summary(t);
	}
	if (!failed)
		return EXIT_OK;
	return FAIL(EXIT_FAILED, .what = what, .on = text("%zu of %s", failed, plural(named)),
		    .why = first_failure(t), .remedy = "the answer has the reason of each");
}
