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

static pid_t process(void *data, uint64_t flow)
{
	struct known *known = data;
	size_t n;
	const struct held_socket *socket = held_of(&known->held, flow, &n);

	return socket ? socket->pid : 0;
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

	return known->read ? origins_words(&known->origins, flow->key, &flow->record) : NULL;
}

struct owner_source owner_source(struct known *known)
{
	return (struct owner_source){ look, process, look_for_words, words, known };
}
