// SPDX-License-Identifier: GPL-2.0-only
/* What flows are grouped by: see group.h. */
#include <stdlib.h>

#include "top/group.h"
#include "util/memory.h"

const char *grouping_word(enum grouping by)
{
	static const char *const words[] = {
#define X(name, word) word,
		GROUPINGS(X)
#undef X
	};

	return words[by];
}

const char *grouping_title(enum grouping by)
{
	static const char *const titles[] = {
#define X(name, word) #name,
		GROUPINGS(X)
#undef X
	};

	return titles[by];
}

/* Its place among the exceptions, or their number. */
static size_t place_of(const struct folds *folds, uint64_t group)
{
	size_t i = 0;

	while (i < folds->n && folds->except[i] != group)
		i++;
	return i;
}

bool folds_has(const struct folds *folds, uint64_t group)
{
	return (place_of(folds, group) < folds->n) != folds->all;
}

void folds_set(struct folds *folds, uint64_t group, bool folded)
{
	size_t at = place_of(folds, group);

	if (folds_has(folds, group) == folded)
		return;
	if (at < folds->n) {
		folds->except[at] = folds->except[--folds->n];
		return;
	}
	folds->except = must_grow(folds->except, (folds->n + 1) * sizeof(*folds->except));
	folds->except[folds->n++] = group;
}

void folds_toggle_all(struct folds *folds)
{
	bool any = folds->all || folds->n;

	folds_clear(folds);
	folds->all = !any;
}

void folds_clear(struct folds *folds)
{
	free(folds->except);
	*folds = (struct folds){ 0 };
}
