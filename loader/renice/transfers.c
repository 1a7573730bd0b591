// SPDX-License-Identifier: GPL-2.0-only
/* What became of each transfer: see transfers.h. */
#include <stdlib.h>
#include <string.h>

#include "out/errors.h"
#include "renice/transfers.h"
#include "sys/namespaces.h"
#include "util/memory.h"

#define PASSES_LEAST 2 /* the second verifies, and finds what the first has skipped */
#define PASSES_MOST 10 /* while connections are opened all the time */

const char *outcome_word(enum outcome outcome)
{
	static const char *const words[] = {
#define X(name, word, words) [OUTCOME_##name] = word,
		RENICE_OUTCOMES(X)
#undef X
	};

	return words[outcome];
}

const char *outcome_words(enum outcome outcome)
{
	static const char *const all[] = {
#define X(name, word, words) [OUTCOME_##name] = words,
		RENICE_OUTCOMES(X)
#undef X
	};

	return all[outcome];
}

/* The records of one walk. */
struct pass {
	struct ccbpf_renice_record *records;
	size_t n, size;
	bool moved; /* it moved something */
};

static void collect(void *data, const void *record)
{
	struct pass *pass = data;

	if (pass->n == pass->size) {
		pass->size = pass->size ? 2 * pass->size : 256;
		pass->records = must_grow(pass->records, pass->size * sizeof(*pass->records));
	}
	pass->records[pass->n++] = *(const struct ccbpf_renice_record *)record;
}

/* struct transfer begins with a record as well. */
static int by_cookie(const void *a, const void *b)
{
	const struct ccbpf_renice_record *x = a, *y = b;

	return x->cookie < y->cookie ? -1 : x->cookie > y->cookie;
}

/* Of one that was seen twice in a walk, the record of its move is the first. */
static int by_cookie_and_verdict(const void *a, const void *b)
{
	const struct ccbpf_renice_record *x = a, *y = b;

	return by_cookie(a, b) ?: y->verdict - x->verdict;
}

static enum outcome outcome_of(const struct ccbpf_renice_record *record)
{
	static const enum outcome outcomes[] = {
#define X(name, text) [CCBPF_RENICE_##name] = OUTCOME_##name,
		CCBPF_RENICE_VERDICTS(X)
#undef X
	};

	return outcomes[record->verdict];
}

/* One that was known has been seen again. */
static void see_again(struct transfer *transfer, const struct ccbpf_renice_record *record)
{
	enum outcome now = outcome_of(record);

	if (now == OUTCOME_HAS_IT && transfer->outcome == OUTCOME_MOVED)
		return; /* verified */
	if (now == OUTCOME_REFUSED && transfer->outcome == OUTCOME_MOVED)
		now = OUTCOME_LOST;
	transfer->outcome = now;
	transfer->record.error = record->error;
}

/* The transfer of a record among those of earlier walks, or the newest one; NULL: it is new. */
static struct transfer *find(struct transfers *t, size_t known,
			     const struct ccbpf_renice_record *record)
{
	struct transfer *newest = t->n > known ? &t->all[t->n - 1] : NULL;

	if (newest && newest->record.cookie == record->cookie)
		return newest;
	return known ? bsearch(record, t->all, known, sizeof(*t->all), by_cookie) : NULL;
}

/*
 * Take over what a walk has seen. With --from the iterator shows also what has the new
 * controller, with --off what is not held, so that a move can be verified; what was so before was
 * not asked for.
 */
static void merge(struct transfers *t, struct pass *pass, unsigned int number)
{
	bool verifies = *t->config->from || t->config->off;
	size_t known = t->n;

	t->all = must_grow(t->all, (t->n + pass->n + 1) * sizeof(*t->all));
	if (pass->n)
		qsort(pass->records, pass->n, sizeof(*pass->records), by_cookie_and_verdict);
	for (size_t i = 0; i < pass->n; i++) {
		const struct ccbpf_renice_record *record = &pass->records[i];
		struct transfer *at = find(t, known, record);

		pass->moved |= record->verdict == CCBPF_RENICE_MOVED;
		if (at) {
			see_again(at, record);
		} else if (verifies && record->verdict == CCBPF_RENICE_HAS_IT) {
			continue;
		} else {
			at = &t->all[t->n++];
			*at = (struct transfer){ .record = *record, .outcome = outcome_of(record) };
			at->netns = t->n_places - 1;
		}
		at->pass = number;
	}
	if (t->n)
		qsort(t->all, t->n, sizeof(*t->all), by_cookie);
}

/* What was moved in this namespace, and was not there in the last walk. */
static void find_closed(struct transfers *t, unsigned int last)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->all[i].netns == t->n_places - 1 && t->all[i].pass < last &&
		    t->all[i].outcome == OUTCOME_MOVED)
			t->all[i].outcome = OUTCOME_CLOSED;
}

/* What netns_each() hands to each namespace. */
struct visit {
	const char *what;
	const struct iterator *iterator;
	struct transfers *transfers;
};

static int visit_place(void *data, const struct netns *netns)
{
	const struct visit *visit = data;
	struct transfers *t = visit->transfers;
	unsigned int number = 0;
	struct place *place;
	struct pass pass = { 0 };

	t->places = must_grow(t->places, (t->n_places + 1) * sizeof(*t->places));
	place = &t->places[t->n_places++];
	*place = (struct place){ .inode = netns->inode, .name = must_copy(netns->name) };
	do {
		pass.n = 0;
		pass.moved = false;
		place->error = iterator_walk(visit->what, visit->iterator, netns, collect, &pass);
		merge(t, &pass, ++number);
	} while (!place->error && (number < PASSES_LEAST || (pass.moved && number < PASSES_MOST)));
	find_closed(t, number);
	place->unsettled = pass.moved;
	free(pass.records);
	return EXIT_OK;
}

int transfers_move(const char *what, const struct iterator *iterator,
		   const struct ccbpf_renice_config *config, struct transfers *out)
{
	struct visit visit = { what, iterator, out };
	int err;

	*out = (struct transfers){ .config = config };
	err = netns_each(what, visit_place, &visit);
	for (size_t i = 0; i < out->n; i++)
		out->counts[out->all[i].outcome]++;
	return err;
}

void transfers_free(struct transfers *transfers)
{
	for (unsigned int i = 0; i < transfers->n_places; i++)
		free(transfers->places[i].name);
	free(transfers->places);
	free(transfers->all);
}
