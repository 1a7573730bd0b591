// SPDX-License-Identifier: GPL-2.0-only
/* The downloads that `ccbpf renice --download` holds: see downloads.h. */
#include <stdlib.h>
#include <unistd.h>

#include "cc/flows.h"
#include "ccbpf/rule.h"
#include "renice/downloads.h"
#include "renice/transfers.h"

#define OPENING_US 300000 /* two round trips of a long path */

static bool has_record(int flows_fd)
{
	struct flow *flows = NULL;
	bool found = false;
	size_t n = 0;

	if (flows_read(flows_fd, &flows, &n) == 0)
		for (size_t i = 0; i < n; i++)
			found |= flows[i].record.kind == CCBPF_KIND_rx_lp &&
				 flows[i].record.instance == CCBPF_RECEIVED_BY_RENICE;
	free(flows);
	return found;
}

bool downloads_are_held(void)
{
	struct moved moved;
	bool held = !moved_open(&moved) && moved.receives_fd >= 0 && has_record(moved.flows_fd);

	moved_close(&moved);
	return held || moved_holds();
}

/* What the iterator finds; what it does not, with its next segment. */
void downloads_release(const char *what)
{
	const struct selection all = { .config = { .off = 1 } };
	struct transfers transfers = { 0 };
	struct iterator iterator;
	struct moved moved;

	if (!moved_open(&moved) && moved.receives_fd >= 0) {
		if (!iterator_open(what, &all, &moved, &iterator))
			transfers_move(what, &iterator, &all.config, &transfers);
		transfers_free(&transfers);
		iterator_close(&iterator);
		moved_open_windows();
		if (has_record(moved.flows_fd))
			usleep(OPENING_US);
	}
	moved_close(&moved);
}
