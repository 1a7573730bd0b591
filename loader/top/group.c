// SPDX-License-Identifier: GPL-2.0-only
/* What flows are grouped by: see group.h. */
#include <stdlib.h>

#include "top/group.h"
#include "util/memory.h"

static const struct {
	const char *word, *title;
} groups[] = {
#define X(name, word) [GROUP_##name] = { word, #name },
	GROUPS(X)
#undef X
};

static const struct {
	const char *words;
	enum group_kind kinds[GROUP_LEVELS];
} groupings[] = {
#define X(name, word, words, outer, inner) \
	[GROUPING_##name] = { words, { GROUP_##outer, GROUP_##inner } },
	GROUPINGS(X)
#undef X
};

const char *group_word(enum group_kind kind)
{
	return groups[kind].word;
}

const char *group_title(enum group_kind kind)
{
	return groups[kind].title;
}

const char *grouping_words(enum grouping by)
{
	return groupings[by].words;
}

unsigned int grouping_levels(enum grouping by)
{
	unsigned int levels = 0;

	while (levels < GROUP_LEVELS && groupings[by].kinds[levels] != GROUP_NONE)
		levels++;
	return levels;
}

enum group_kind grouping_kind(enum grouping by, unsigned int level)
{
	return groupings[by].kinds[level];
}

bool group_within(const struct group *group, const struct group *outer)
{
	unsigned int level = 0;

	if (group->depth < outer->depth)
		return false;
	while (level < outer->depth && group->of[level] == outer->of[level])
		level++;
	return level == outer->depth;
}

bool group_is(const struct group *a, const struct group *b)
{
	return a->depth == b->depth && group_within(a, b);
}

/* Its place among the exceptions, or their number. */
static size_t place_of(const struct folds *folds, const struct group *group)
{
	size_t i = 0;

	while (i < folds->n && !group_is(&folds->except[i], group))
		i++;
	return i;
}

bool folds_has(const struct folds *folds, const struct group *group)
{
	bool folded = folds->from && group->depth >= folds->from;

	return (place_of(folds, group) < folds->n) != folded;
}

void folds_set(struct folds *folds, const struct group *group, bool folded)
{
	size_t at = place_of(folds, group);

	if (folds_has(folds, group) == folded)
		return;
	if (at < folds->n) {
		folds->except[at] = folds->except[--folds->n];
		return;
	}
	folds->except = must_grow(folds->except, (folds->n + 1) * sizeof(*folds->except));
	folds->except[folds->n++] = *group;
}

void folds_next(struct folds *folds, unsigned int levels)
{
	unsigned int from = folds->from ? folds->from - 1 : levels;

	if (folds->n)
		from = 0;
	folds_clear(folds);
	folds->from = from;
}

void folds_clear(struct folds *folds)
{
	free(folds->except);
	*folds = (struct folds){ 0 };
}
