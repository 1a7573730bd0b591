/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flow records and events as words: the fields' names are those of the structs
 * in include/ccbpf.
 */
#ifndef CCBPF_FLOWTEXT_H
#define CCBPF_FLOWTEXT_H

#include <json-c/json.h>

#include "ccbpf/event.h"
#include "shared.h"

/* "slow-start", "owd"; "?" for a number that this ccbpf does not know. */
const char *phase_word(__u32 phase);
const char *signal_word(__u32 signal);

/* "10.0.0.1:443", "[fd00::1]:443", in text()'s buffers. */
const char *endpoint(__u16 family, const __u8 *address, __u16 port);

/*
 * Every field of a record; enums as words, addresses as text, the controller's
 * own part as an object.
 */
struct json_object *flow_json(const struct flow *flow);

/*
 * For a person, in text()'s buffers: the controller's own part of a record, and
 * what met the flow so far.
 */
const char *flow_own_words(const struct ccbpf_flow *flow);
const char *flow_met_words(const struct ccbpf_flow *flow);

/* A row of the table of events. */
struct event_type {
	const char *word, *text;
	char a[24], b[24]; /* what the two numbers hold */
};

/* The type of an event, or NULL for a number that this ccbpf does not know. */
const struct event_type *event_type_of(__u32 type);

struct json_object *event_json(const struct ccbpf_event *event);

#endif
