/* SPDX-License-Identifier: GPL-2.0-only */
/* The types of events: the table of include/ccbpf/event.h. */
#ifndef CCBPF_EVENTS_H
#define CCBPF_EVENTS_H

#include "ccbpf/event.h"

/* A row of the table of events. */
struct event_type {
	const char *word, *text;
	char a[24], b[24]; /* what the two numbers hold */
};

/* The type of an event, or NULL for a number that this ccbpf does not know. */
const struct event_type *event_type_of(__u32 type);

#endif
