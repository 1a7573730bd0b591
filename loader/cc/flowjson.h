/* SPDX-License-Identifier: GPL-2.0-only */
/* Flow records and events as JSON: the keys are the fields' names in include/ccbpf. */
#ifndef CCBPF_FLOWJSON_H
#define CCBPF_FLOWJSON_H

#include <json-c/json.h>

#include "cc/flows.h"
#include "ccbpf/event.h"

/*
 * Every field of a record; enums as words, addresses as text, the controller's
 * own part as an object.
 */
struct json_object *flow_json(const struct flow *flow);

struct json_object *event_json(const struct ccbpf_event *event);

#endif
