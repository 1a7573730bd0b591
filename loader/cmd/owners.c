// SPDX-License-Identifier: GPL-2.0-only
/* Whose the flows of `ccbpf top` are: see owners.h. */
#include "cmd/owners.h"
#include "sys/pins.h"

static void forget_origins(struct known *known)
{
	if (known->read)
		origins_free(&known->origins);
	known->read = false;
}

void known_free(struct known *known)
{
	forget_origins(known);
	held_free(&known->held);
}

static void look(void *data)
{
	struct known *known = data;

	held_free(&known->held);
	known->held = held_read();
}

static void groups(void *data, uint64_t flow, uint64_t group[GROUP_KINDS])
{
	struct known *known = data;
	const struct held_socket *socket = held_of(&known->held, flow);

	if (socket && socket->cgroup)
		group[GROUP_CGROUP] = socket->cgroup;
	if (socket && socket->pid)
		group[GROUP_PROCESS] = socket->pid;
}

/* Not while another command changes something: then it stays what it was. */
static bool look_for_words(void *data)
{
	struct known *known = data;

	if (!pins_try_read())
		return false;
	forget_origins(known);
	origins_read(&known->origins);
	known->read = true;
	pins_unlock();
	return true;
}

static const char *words(void *data, const struct flow *flow)
{
	struct known *known = data;
	const struct origin *origin =
		known->read ? origins_of(&known->origins, flow->key, &flow->record) : NULL;

	return origin ? origin_words(&known->origins, origin) : NULL;
}

struct owner_source owner_source(struct known *known)
{
	return (struct owner_source){ look, groups, look_for_words, words, known };
}
