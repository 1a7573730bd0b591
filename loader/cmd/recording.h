/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `trace --plot` keeps until it draws: samples of the flows, as `flows --record` writes them, and
 * the events between them. In a file of TMPDIR without a name, because addresses are in it.
 */
#ifndef CCBPF_CMD_RECORDING_H
#define CCBPF_CMD_RECORDING_H

#include <stdbool.h>
#include <stdio.h>

#include "cc/controllers.h"
#include "ccbpf/event.h"
#include "ccbpf/flow.h"

#define RECORD_NS 100000000ULL /* between two samples */

struct recording {
	const char *what; /* the verb of its errors */
	const char *picture; /* NULL: nothing is recorded, and all of this has no effect */
	FILE *file;
	int flows_fd;
	bool any; /* a flow was there */
};

/*
 * Begin, after a look at whether the picture can be drawn: nobody traces in vain. Returns EXIT_OK, or
 * the exit code after saying why not.
 */
int recording_open(struct recording *recording, const char *what, const char *picture);

/* The rest of it, under the lock of the pins. */
int recording_open_flows(struct recording *recording);

/* One sample more, of the flows that `wanted` names by their kind. Returns as above. */
int recording_sample(struct recording *recording, bool (*wanted)(const void *data, __u32 kind),
		     const void *data);

void recording_event(struct recording *recording, const struct ccbpf_event *event);

/* Draw it. Returns as above. */
int recording_draw(struct recording *recording);

void recording_close(struct recording *recording);

#endif
