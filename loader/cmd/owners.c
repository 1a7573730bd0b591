// SPDX-License-Identifier: GPL-2.0-only
/* Whose the flows of `ccbpf top` are: see owners.h. */
#include "cmd/owners.h"
#include "sys/pins.h"

void known_free(struct known *known)
{
	if (known->read)
		origins_free(&known->origins);
	known->read = false;
}

/* Not while another command changes something: then it stays what it was. */
static bool look(void *data)
{
	struct known *known = data;

	if (!pins_try_read())
		return false;
	known_free(known);
	origins_read(&known->origins);
	known->read = true;
	pins_unlock();
	return true;
}

static const struct origin *origin_of(const struct known *known, uint64_t flow)
{
	return known->read ? origins_of(&known->origins, flow) : NULL;
}

static uint64_t group(void *data, enum grouping by, uint64_t flow)
{
	struct known *known = data;
	const struct origin *origin = origin_of(known, flow);
	const struct holder *holder;
	size_t n;

	if (!origin)
		return GROUP_UNKNOWN;
	if (by == GROUPING_CGROUP)
		return origin->cgroup ?: GROUP_UNKNOWN;
	holder = origin_processes(&known->origins, origin, &n);
	return holder ? (uint64_t)holder->pid : GROUP_UNKNOWN;
}

static const char *words(void *data, uint64_t flow)
{
	struct known *known = data;
	const struct origin *origin = origin_of(known, flow);

	return origin ? origin_words(&known->origins, origin) : NULL;
}

struct owner_source owner_source(struct known *known)
{
	return (struct owner_source){ look, group, words, known };
}
