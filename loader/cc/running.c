// SPDX-License-Identifier: GPL-2.0-only
/* What runs: see running.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cc/running.h"
#include "out/errors.h"
#include "out/json.h"
#include "sys/pins.h"
#include "sys/shared.h"
#include "util/text.h"

/* The kernel's struct bpf_struct_ops_common_value: every struct_ops map's value begins with it. */
struct ops_head {
	uint32_t refcnt, state;
};
#define OPS_INUSE 1 /* BPF_STRUCT_OPS_STATE_INUSE: registered without a link */

/*
 * Whether a struct_ops map is the controller's, by its name: a link of anything
 * else, a scheduler for example, is not ours to detach.
 */
static bool is_ops_of(const char *name, const struct bpf_map_info *info)
{
	return info->type == BPF_MAP_TYPE_STRUCT_OPS &&
	       strncmp(info->name, name, sizeof(info->name)) == 0;
}

/* The same of the map that the link holds. Without CAP_SYS_ADMIN that is not known:
 * then it is taken for ours. */
static bool is_foreign(uint32_t ops_id, const char *name)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);
	int fd = bpf_map_get_fd_by_id(ops_id);
	bool foreign = fd >= 0 && !bpf_map_get_info_by_fd(fd, &info, &size) &&
		       !is_ops_of(name, &info);

	if (fd >= 0)
		close(fd);
	return foreign;
}

static int read_link(struct attachment *a, const struct bpf_link_info *link)
{
	a->held_id = link->struct_ops.map_id;
	if (!a->held_id)
		a->state = ATTACHMENT_DETACHED;
	else if (!is_foreign(a->held_id, a->dir))
		a->state = ATTACHMENT_HELD;
	return 0;
}

/* What the link, or the map where there are no links, holds of the controller. */
static int read_registration(struct attachment *a, const struct bpf_link_info *link)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info), zero = 0;
	union {
		struct ops_head head;
		char bytes[4096]; /* the value is 256 bytes on Linux 6.18 */
	} value = { 0 };

	if (link)
		return read_link(a, link);
	if (bpf_map_get_info_by_fd(a->hold_fd, &info, &size))
		return -errno;
	if (!is_ops_of(a->dir, &info) || info.value_size > sizeof(value))
		return 0;
	a->held_id = info.id;
	if (bpf_map_lookup_elem(a->hold_fd, &zero, &value))
		return -errno;
	a->state = value.head.state == OPS_INUSE ? ATTACHMENT_HELD : ATTACHMENT_STALE;
	return 0;
}

/* A map is registered whether it is pinned or not. */
static int unregister(const char *what, const struct attachment *a)
{
	uint32_t zero = 0;

	if (a->by_link || a->state != ATTACHMENT_HELD)
		return EXIT_OK;
	return bpf_map_delete_elem(a->hold_fd, &zero) ? fail_errno(what, a->dir, errno) : EXIT_OK;
}

static const struct attachment_kind controller_attachment = {
	.n_maps = CONTROLLER_MAPS,
	.abi = CCBPF_ABI,
	.link_type = BPF_LINK_TYPE_STRUCT_OPS,
	.instead = PIN_OPS,
	.instead_kind = PIN_KIND_MAP,
	.reloads = true,
	.read = read_registration,
	.release = unregister,
};

const char *running_word(const struct running *running)
{
	static const char *const words[] = {
		[ATTACHMENT_ABSENT] = "absent",		[ATTACHMENT_STALE] = "stale",
		[ATTACHMENT_DETACHED] = "detached",	[ATTACHMENT_HELD] = "enabled",
		[ATTACHMENT_UNREADABLE] = "unreadable",
	};

	return words[running->attachment.state];
}

struct running running_of(const struct controller *c)
{
	struct running running = { .controller = c, .params_fd = -1 };

	running.attachment = (struct attachment){ .kind = &controller_attachment,
						  .maps = c->maps,
						  .hold_fd = -1 };
	snprintf(running.attachment.dir, sizeof(running.attachment.dir), "%s", c->name);
	return running;
}

/* `params_fd`, or `params_err`. Parameters of another ABI are not known, even of as many. */
static int open_params(const char *what, struct running *running)
{
	int err = running->attachment.identity_err;

	if (err != -EMEDIUMTYPE)
		err = attachment_open_map(&running->attachment, CONTROLLER_PARAMS);
	if (err >= 0) {
		running->params_fd = err;
		return EXIT_OK;
	}
	running->params_err = err;
	if (err == -ENOENT || err == -EMEDIUMTYPE)
		return EXIT_OK;
	running_close(running);
	return fail_errno(what, attachment_path(&running->attachment, PIN_PARAMS), err);
}

int running_open(const char *what, const struct controller *c, struct running *running)
{
	int err;

	*running = running_of(c);
	err = attachment_open(what, &running->attachment, &running->identity);
	running->identity.version[CCBPF_VERSION_LEN - 1] = '\0';
	if (!err && running_is_enabled(running))
		err = open_params(what, running);
	return err;
}

void running_close(struct running *running)
{
	attachment_close(&running->attachment);
	if (running->params_fd >= 0)
		close(running->params_fd);
	running->params_fd = -1;
}

bool running_is_enabled(const struct running *running)
{
	return running->attachment.state == ATTACHMENT_HELD;
}

bool controller_is_enabled(const struct controller *c)
{
	struct running running;
	bool enabled = !running_open("look at", c, &running) && running_is_enabled(&running);

	running_close(&running);
	return enabled;
}

int running_none(const char *what, const char *on)
{
	return FAIL(
		EXIT_NOTHING, .what = what, .on = on, .why = "no controller is enabled",
		.remedy =
			"`netnice COMMAND` runs a command in the background, `ccbpf assign` makes a rule; `ccbpf enable NAME` only makes a controller selectable");
}

int running_require_flows(const char *what)
{
	bool exists;
	int fd = -1, err = pins_lock_read(what, &exists);

	if (!err && exists)
		err = shared_open(what, SHARED_FLOWS, &fd);
	pins_unlock();
	if (fd >= 0)
		close(fd);
	return err || fd >= 0 ? err : running_none(what, "flows");
}

int running_lock(const char *what, const struct controller *first)
{
	struct running absent = { .controller = first };

	if (pin_exists(pins_root()))
		return pins_lock_change(what);
	return running_absent(what, &absent);
}

int running_absent(const char *what, const struct running *running)
{
	const char *name = running->controller->name;

	if (running->attachment.state == ATTACHMENT_UNREADABLE)
		return FAIL(EXIT_FAILED, .what = what, .on = name,
			    .why = text("the pin %s is not a controller's link",
					pin_path(name, PIN_LINK)),
			    .remedy = "`ccbpf clean --all` disables all and removes it");
	if (running->attachment.state == ATTACHMENT_ABSENT)
		return FAIL(EXIT_NOTHING, .what = what, .on = name, .why = "it is not enabled",
			    .remedy = text("`ccbpf enable %s` enables it", name));
	return FAIL(EXIT_NOTHING, .what = what, .on = name,
		    .why = running->attachment.state == ATTACHMENT_DETACHED
				   ? "it is not enabled: somebody detached its link"
				   : "it is not enabled: its pins are stale",
		    .remedy =
			    text("`ccbpf enable %s` enables it, `ccbpf clean` removes what is left",
				 name));
}

const char *running_handle(const struct running *running)
{
	return running->attachment.by_link ? text("link %u", running->attachment.link_id)
					   : text("map %u", running->attachment.held_id);
}

struct json_object *running_json(const struct running *running)
{
	struct json_object *doc = json_object_new_object();

	add_text(doc, "name", running->controller->name);
	add_number(doc, "link_id", running->attachment.link_id);
	add_number(doc, "map_id", running->attachment.held_id);
	add_number(doc, "instance", running->identity.instance);
	return doc;
}
