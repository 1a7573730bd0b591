// SPDX-License-Identifier: GPL-2.0-only
/* What there is to say of one nf_red: see verbs.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/aqm/verbs.h"
#include "out/json.h"
#include "util/clock.h"
#include "util/memory.h"

#define UNSEEN_NS 1000000000ull /* so long no packet: is none sent? */
#define UNSEEN_LOOKS 10 /* and for so many hundredths of a second we look */

/*
 * Whether the device sends now and nf_red sees nothing. What has waited in the queue
 * may be sent without being seen again: then less waits than before.
 */
static bool is_unseen(const char *what, const struct aqm_view *view, const struct device *device,
		      struct qdiscs *all)
{
	uint64_t last = view->state.last_ns, since = view->aqm->identity.instance;
	uint32_t sent = device_sent(device->name);
	struct ccbpf_aqm_state now;
	struct aqm_queue queue;

	if (monotonic_ns() - (last > since ? last : since) < UNSEEN_NS)
		return false;
	for (int i = 0; i < UNSEEN_LOOKS && device_sent(device->name) == sent; i++)
		usleep(10000);
	if (device_sent(device->name) == sent || qdiscs_read(device->ifindex, all) ||
	    aqm_read_state(what, view->aqm, &now))
		return false;
	aqm_look_at_queue(device, all, view->config.leaf, &queue);
	return now.last_ns == last && queue.backlog_bytes >= view->queue.backlog_bytes;
}

int verb_look(const char *what, const struct tchook *aqm, struct aqm_view *view)
{
	struct qdiscs *all = must_alloc(1, sizeof(*all));
	struct device device;
	const char *name;
	int err;

	*view = (struct aqm_view){ .aqm = aqm };
	snprintf(view->device, sizeof(view->device), "%s", aqm->identity.device);
	err = aqm_read_config(what, aqm, &view->config);
	if (!err)
		err = aqm_read_state(what, aqm, &view->state);
	if (!err)
		err = aqm_read_counts(what, aqm, &view->counts);
	name = tchook_is_here(aqm) ? device_name(aqm->identity.ifindex) : NULL;
	if (!err && name && !device_find(name, &device) && !qdiscs_read(device.ifindex, all)) {
		view->here = true;
		memcpy(view->device, device.name, sizeof(view->device));
		view->packet_bytes = device.packet_bytes;
		aqm_look_at_queue(&device, all, view->config.leaf, &view->queue);
		view->queue.root = NULL; /* ends with us */
		view->unseen = is_unseen(what, view, &device, all);
	}
	free(all);
	return err;
}

struct json_object *verb_envelope(struct json_object **list)
{
	struct json_object *doc = json_object_new_object();

	*list = json_object_new_array();
	add_number(doc, "time_ns", monotonic_ns());
	json_object_object_add(doc, "queues", *list);
	return doc;
}
